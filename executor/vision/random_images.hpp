// SPDX-License-Identifier: Apache-2.0
// Batches of random images, for profiling.
#pragma once

#include "executor/units/model.hpp"
#include "sim/model/image_classifier.hpp"

#include <cstdint>
#include <functional>

namespace athanor {

/// Returns a source of batches of as many images as it is asked for: equal ones whenever it is
/// asked.
[[nodiscard]] std::function<Batch(std::int64_t num_samples)> random_images(
    const ImageClassifierConfig& config);

}  // namespace athanor
