// SPDX-License-Identifier: Apache-2.0
// Tokens travel (expert parallelism): experts live on their ranks, and tokens are sent to them and
// back. GShard (Lepikhin et al. 2020) introduced it.
#pragma once

#include "sim/model/plan.hpp"

#include <cstdint>

namespace athanor {

[[nodiscard]] const UnitPattern& tokens_travel() noexcept;

/// Whether tokens of `unit` can travel: it has experts and no attention.
[[nodiscard]] bool has_only_experts(const Unit& unit);

/// Returns the experts of `unit`.
[[nodiscard]] std::int64_t num_experts(const Unit& unit);

/// Returns the least UnitPlan::capacity that no step of the plan can exceed: all tokens of a
/// micro-batch choose as many experts of one rank as there are. `per_token` is the number of
/// experts that a token uses.
[[nodiscard]] std::int64_t safe_capacity(const Unit& unit, std::int64_t per_token,
                                         std::int64_t tokens, int world_size);

}  // namespace athanor
