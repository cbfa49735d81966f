// SPDX-License-Identifier: Apache-2.0
// The index of a folder of packed tokens: packed-tokens.md defines the format.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

struct PackedShard {
  std::string file;  ///< name inside the folder
  std::int64_t sequences = 0;
  Bytes bytes = 0;
  std::uint32_t crc32 = 0;
};

struct PackedIndex {
  std::string model;
  std::int64_t vocab_size = 0;
  std::int64_t sequence_length = 0;
  std::int64_t sequences = 0;
  std::int64_t documents = 0;
  std::int64_t tokens = 0;
  std::int64_t loss_tokens = 0;
  std::vector<PackedShard> shards;
};

/// Parses an index and checks that its numbers agree. Throws InputError(file:key).
[[nodiscard]] PackedIndex parse_packed_index(std::string_view text, const std::string& file);

}  // namespace athanor
