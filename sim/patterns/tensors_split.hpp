// SPDX-License-Identifier: Apache-2.0
// Tensors are split (tensor parallelism): each rank has a part of every large matrix of a unit, and
// activations travel. Megatron-LM (Shoeybi et al. 2019) introduced it; rows are divided outside the
// matrices as in its sequence parallelism (Korthikanti et al. 2022).
#pragma once

#include "sim/model/plan.hpp"

#include <cstdint>

namespace athanor {

[[nodiscard]] const UnitPattern& tensors_split() noexcept;

/// Whether tensors of `unit` can be split: it is attention or the perceptron of a split block of
/// llama, mistral, qwen2 or qwen3, or of a mixture with such attention (not olmoe, whose norms are
/// across all heads).
[[nodiscard]] bool has_tensors_to_split(const Architecture& architecture, const Unit& unit);

/// Whether matrices and heads of `unit`, which has_tensors_to_split(), divide among so many ranks.
[[nodiscard]] bool tensors_divide(const Architecture& architecture, const Unit& unit,
                                  int world_size);

}  // namespace athanor
