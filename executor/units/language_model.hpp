// SPDX-License-Identifier: Apache-2.0
// The built-in language models as lists of units.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>

namespace athanor {

/// Makes a built-in language model. Parameters are allocated but not initialized. Throws InputError
/// when the model has no room for `sequence_length` positions or its model_type is unknown, Error
/// when `architecture` is not what its family needs.
[[nodiscard]] Model make_language_model(const Architecture& architecture, DataType dtype,
                                        std::int64_t sequence_length);

}  // namespace athanor
