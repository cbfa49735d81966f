// SPDX-License-Identifier: Apache-2.0
// The weights that a fresh run starts from.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <span>

namespace athanor {

/// Writes elements [offset, offset + out.size()) of the initial weights of unit `unit` with
/// `threads` threads: fp32, laid out as the unit's flat storage (see chunk_layout.hpp), padding
/// zero. They depend on the seed, the parameter's name and the element's place alone, never on the
/// plan. Language models and classifiers of images follow their family's rule (normal with
/// deviation 0.02, smaller for gpt2's residual projections); a user's modules keep the values that
/// they were constructed with. Throws Error where neither says how they are drawn.
void initial_weights(const Model& model, int unit, std::uint64_t seed, std::int64_t offset,
                     std::span<float> out, int threads);

}  // namespace athanor
