// SPDX-License-Identifier: Apache-2.0
// Folders of packed tokens made by hand, with any fault that a test asks for.
#pragma once

#include "executor/io/safetensors_writer.hpp"
#include "tests/io/temporary_files.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <zlib.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

namespace athanor::test {

/// One shard, [sequences, length] in rows.
struct PackedRows {
  std::int64_t length = 0;
  std::vector<std::int32_t> ids;
  std::vector<std::uint8_t> loss_mask, document_starts;
  [[nodiscard]] std::int64_t sequences() const {
    return static_cast<std::int64_t>(ids.size()) / length;
  }
};

/// Two sequences: documents of 3 and 2 tokens, and one of 5.
inline PackedRows two_sequences() {
  return {.length = 5,
          .ids = {1, 2, 3, 4, 5, 6, 7, 8, 9, 0},
          .loss_mask = {0, 0, 1, 0, 1, 0, 1, 1, 0, 0},
          .document_starts = {1, 0, 0, 1, 0, 1, 0, 0, 0, 0}};
}

inline std::string read_bytes(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// Writes a shard, and returns its entry in the index.
inline std::string write_packed_shard(const Folder& folder, const std::string& name,
                                      const PackedRows& rows) {
  const std::vector<std::int64_t> shape{rows.sequences(), rows.length};
  const std::string path = folder / name;
  SafetensorsWriter writer(path,
                           {{"ids", TensorType::I32, shape, 0},
                            {"loss_mask", TensorType::U8, shape, 0},
                            {"document_starts", TensorType::U8, shape, 0}},
                           {});
  writer.write("ids", std::as_bytes(std::span(rows.ids)));
  writer.write("loss_mask", std::as_bytes(std::span(rows.loss_mask)));
  writer.write("document_starts", std::as_bytes(std::span(rows.document_starts)));
  writer.finish();
  const std::string bytes = read_bytes(path);
  const auto crc = ::crc32_z(0, reinterpret_cast<const Bytef*>(bytes.data()), bytes.size());
  return fmt::format(R"({{"file": "{}", "sequences": {}, "bytes": {}, "crc32": "{:08x}"}})", name,
                     rows.sequences(), bytes.size(), crc);
}

/// Returns the text of an index whose totals are those of `shards`.
inline std::string packed_index_text(const std::vector<PackedRows>& shards,
                                     const std::vector<std::string>& entries) {
  std::int64_t sequences = 0;
  std::int64_t documents = 0;
  std::int64_t learnt = 0;
  for (const PackedRows& rows : shards) {
    sequences += rows.sequences();
    documents += std::accumulate(rows.document_starts.begin(), rows.document_starts.end(), 0);
    learnt += std::accumulate(rows.loss_mask.begin(), rows.loss_mask.end(), 0);
  }
  return fmt::format(
      R"({{"schema": "athanor.tokens/1", "model": "m", "vocab_size": 10, "sequence_length": {}, )"
      R"("sequences": {}, "documents": {}, "tokens": {}, "loss_tokens": {}, "shards": [{}]}})",
      shards.front().length, sequences, documents, sequences * shards.front().length, learnt,
      fmt::join(entries, ", "));
}

/// Writes a folder's shards and index into `folder`.
inline void write_packed(const Folder& folder, const std::vector<PackedRows>& shards) {
  std::vector<std::string> entries;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    entries.push_back(write_packed_shard(folder, fmt::format("{}.safetensors", i), shards[i]));
  }
  folder.write("index.json", packed_index_text(shards, entries));
}

}  // namespace athanor::test
