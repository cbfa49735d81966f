// SPDX-License-Identifier: Apache-2.0
// Documents that share the sequences of a batch.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace athanor {

/// Documents that share the sequences of a batch, and the targets that are learnt.
struct Packing {
  torch::Tensor ignored;    ///< bool [batch, sequence]: targets that add nothing to the loss
  torch::Tensor positions;  ///< int64 [batch, sequence]: from 0 in each document
  std::vector<std::vector<std::int64_t>> document_starts;  ///< [sample], ascending from 0
  /// Returns the number of targets that samples [first, first + count) of the stream learn.
  std::function<std::int64_t(std::int64_t first, std::int64_t count)> num_targets;
  /// Divisor of the loss: the learnt targets of the whole step divided by its micro-batches. The
  /// mean over micro-batches is then the mean over the step's learnt targets. 0: the trainer sets
  /// it.
  double mean_targets = 0;

  /// Whether a sequence holds more than one document.
  [[nodiscard]] bool is_divided() const;
};

/// Tokens [begin, end) of one sample.
struct Document {
  std::int64_t sample = 0, begin = 0, end = 0;
};

/// Lists the documents of a batch [batch, sequence]. Without a packing that divides them, sequences
/// are documents.
[[nodiscard]] std::vector<Document> documents_of(const std::optional<Packing>& packing,
                                                 std::int64_t batch, std::int64_t sequence);

}  // namespace athanor
