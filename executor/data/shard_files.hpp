// SPDX-License-Identifier: Apache-2.0
// Shards of a data folder, as an index names them.
#pragma once

#include "executor/io/safetensors_reader.hpp"
#include "sim/base/quantities.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace athanor {

class JsonReader;

/// Way out of a folder whose files contradict each other, and of an index that does.
inline constexpr const char* kDamagedFolder =
    "The folder is damaged: make it again with `athanor tokenize`.";
inline constexpr const char* kTokenizeAgain = "Make the folder again with `athanor tokenize`.";

/// A file of a data folder.
struct ShardFile {
  std::string file;  ///< name inside the folder
  Bytes bytes = 0;
  std::uint32_t crc32 = 0;
};

/// Reads the keys file, bytes and crc32. Throws InputError(file:key).
[[nodiscard]] ShardFile read_shard_file(JsonReader& json);

/// Opens a shard of `folder`. Throws InputError when its size is not the index's.
[[nodiscard]] SafetensorsReader open_shard_file(const std::string& folder, const ShardFile& entry);

/// Throws InputError when the content is not that of which the index has the sum.
void check_shard_sum(const SafetensorsReader& shard, std::uint32_t crc32);

}  // namespace athanor
