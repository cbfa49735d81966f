// SPDX-License-Identifier: Apache-2.0
// Batches of images and labels.
#pragma once

#include "executor/batches/token_batches.hpp"

#include <memory>

namespace athanor {

/// Returns a source of pixels, fp32 [count, channels, height, width], and labels, int64 [count]. It
/// reads the data, which are images, as token_batches reads tokens.
[[nodiscard]] BatchSource image_batches(std::shared_ptr<const TrainingData> data,
                                        const StreamStart& start = {});

/// Returns the images, once each, to evaluate a model on.
[[nodiscard]] EvaluationSource image_evaluation(std::shared_ptr<const TrainingData> data);

}  // namespace athanor
