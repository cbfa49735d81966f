// SPDX-License-Identifier: Apache-2.0
// A model as --model names it: of the built-in families, of images, or traced.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <string>

namespace athanor {

/// Makes the model that `architecture` describes. `source` is the folder, file or built-in name
/// that it was loaded from. Throws InputError as make_language_model, make_image_classifier and
/// make_traced_model do.
[[nodiscard]] Model make_model(const Architecture& architecture, const std::string& source,
                               DataType dtype, std::int64_t sequence_length);

}  // namespace athanor
