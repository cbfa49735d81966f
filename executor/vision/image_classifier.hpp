// SPDX-License-Identifier: Apache-2.0
// Classifiers of images as lists of units: embedding, layers, head.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>

namespace athanor {

/// Makes the model of an architecture with an image_classifier. Its batches have pixels, fp32
/// [batch, channels, side, side], and labels, int64 [batch]. Parameters are allocated but not
/// initialized. Throws InputError where `sequence_length` is not the number of an image's tokens,
/// Error when the units are not those of the classifier.
[[nodiscard]] Model make_image_classifier(const Architecture& architecture, DataType dtype,
                                          std::int64_t sequence_length);

}  // namespace athanor
