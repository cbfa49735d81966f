// SPDX-License-Identifier: Apache-2.0
// The weights that a fresh run starts from.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <span>

namespace athanor {

/// Writes the initial weights of unit `unit` into `flat`: fp32, laid out as the unit's flat storage
/// (see chunk_layout.hpp), padding zero. They depend on the seed and the parameter's name alone,
/// never on the plan. Language models follow their family's rule (normal with deviation 0.02,
/// smaller for gpt2's residual projections); a user's modules keep the values that they were
/// constructed with. Throws Error when `flat` is too short.
void initial_weights(const Model& model, int unit, std::uint64_t seed, std::span<float> flat);

}  // namespace athanor
