// SPDX-License-Identifier: Apache-2.0
// Language models whose units were traced from transformers' modules by `athanor trace`.
#pragma once

#include "executor/units/model.hpp"
#include "sim/formats/traced_model.hpp"

#include <cstdint>

namespace athanor {

/// Makes the model of a traced folder. Parameters are allocated but not initialized. Throws
/// InputError when the graphs were traced for another sequence length or cannot be read.
[[nodiscard]] Model make_traced_model(const TracedFolder& folder, DataType dtype,
                                      std::int64_t sequence_length);

}  // namespace athanor
