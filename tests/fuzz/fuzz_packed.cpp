// SPDX-License-Identifier: Apache-2.0
// Fuzzes the index of packed tokens. Whatever the text, it either throws an InputError or returns
// an index whose shards are files of the folder and add up.
#include "executor/data/packed_index.hpp"
#include "sim/base/errors.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const athanor::PackedIndex index = athanor::parse_packed_index(
        std::string_view(reinterpret_cast<const char*>(data), size), "index.json");
    std::int64_t sequences = 0;
    for (const athanor::PackedShard& shard : index.shards) {
      if (shard.file.find('/') != std::string::npos || shard.sequences < 1) std::abort();
      sequences += shard.sequences;
    }
    if (sequences != index.sequences || index.sequence_length < 2) std::abort();
  } catch (const athanor::InputError&) {
    return 0;
  }
  return 0;
}
