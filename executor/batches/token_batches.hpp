// SPDX-License-Identifier: Apache-2.0
// Batches of training tokens.
#pragma once

#include "executor/batches/batch_source.hpp"
#include "executor/data/sample_order.hpp"
#include "executor/data/training_data.hpp"

#include <cstdint>
#include <memory>

namespace athanor {

/// Start of a run in the endless stream of samples, which repeats the data in some order.
struct StreamStart {
  std::int64_t shift = 0;  ///< sample of the stream that is the run's sample 0
  SampleOrder order;
};

/// Returns a source of inputs and targets, int64 [count, sequence_length] each. It reads the data
/// over and over, in `start.order`. Its sample i is sample i + `start.shift` of the stream: a run
/// that goes on with another number of samples per step neither repeats nor skips one. Batches of
/// packed tokens have a packing. Of images, batches are those of image_batches.hpp.
[[nodiscard]] BatchSource token_batches(std::shared_ptr<const TrainingData> data,
                                        std::int64_t sequence_length,
                                        const StreamStart& start = {});

/// Returns the data's samples, once each, to evaluate a model on.
[[nodiscard]] EvaluationSource evaluation_source(std::shared_ptr<const TrainingData> data,
                                                 std::int64_t sequence_length);

/// Returns the device memory that a sample's packing takes; 0 for token files.
[[nodiscard]] Bytes packing_bytes_per_sample(const TrainingData& data,
                                             std::int64_t sequence_length);

}  // namespace athanor
