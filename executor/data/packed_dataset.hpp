// SPDX-License-Identifier: Apache-2.0
// Packed training tokens with a loss mask and document starts: packed-tokens.md defines the format.
#pragma once

#include "executor/data/packed_index.hpp"
#include "executor/io/safetensors_reader.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// One sequence for training. All spans have the sequence's length.
struct PackedSample {
  std::span<std::int64_t> inputs;
  std::span<std::int64_t> targets;    ///< the token after each; 0 after the last
  std::span<bool> ignored;            ///< whether the target adds nothing to the loss
  std::span<std::int64_t> positions;  ///< from 0 in each document
};

/// A folder of packed tokens. Samples are its sequences over and over: first in the order of the
/// folder, which `athanor tokenize` has shuffled, then in another order with every pass. Reading is
/// thread-safe.
class PackedDataset {
 public:
  /// Opens `folder`. Throws InputError when index and shards do not agree, or when the ids belong
  /// to a larger vocabulary than `vocab_size`.
  PackedDataset(std::string folder, std::int64_t vocab_size);

  [[nodiscard]] const std::string& path() const noexcept { return folder_; }
  [[nodiscard]] const PackedIndex& index() const noexcept { return index_; }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return index_.tokens; }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return index_.sequences; }

  /// Reads all shards once: checksums, values, and that every sequence has a token to learn. Throws
  /// InputError that names shard and sequence.
  void check_all() const;

  /// Returns the sequence that sample `index` is. It follows from the folder's content alone, so a
  /// resumed run goes on in the same order.
  [[nodiscard]] std::int64_t sequence_of(std::int64_t index) const;
  /// Returns the number of tokens that samples [first, first + count) learn.
  [[nodiscard]] std::int64_t num_targets(std::int64_t first, std::int64_t count) const;
  /// Reads sample `index` and returns where its documents start. Throws InputError for an id
  /// outside the vocabulary, or a sequence that does not start with a document.
  std::vector<std::int64_t> read_sample(std::int64_t index, const PackedSample& to) const;

 private:
  /// Names the shard that holds a sequence, and the sequence's number there.
  struct Place {
    const SafetensorsReader& shard;
    std::int64_t number;
  };
  /// Bytes of one sequence. They are read, not mapped: a file may shrink in the hours of a run.
  struct Row {
    std::vector<std::byte> ids, loss_mask, document_starts;
    const std::string& file;
    std::int64_t number;  ///< in its shard
  };
  [[nodiscard]] Place place_of(std::int64_t sequence) const;
  [[nodiscard]] std::vector<std::byte> part_of(const Place& place, const char* name,
                                               std::size_t width) const;
  [[nodiscard]] Row row_of(std::int64_t sequence) const;
  void check_row(const Row& row) const;

  std::string folder_;
  PackedIndex index_;
  std::int64_t vocab_size_;
  std::vector<SafetensorsReader> shards_;
  std::vector<std::int64_t> ends_;  ///< [shard]: sequences up to its end
};

}  // namespace athanor
