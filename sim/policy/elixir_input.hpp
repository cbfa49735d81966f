// SPDX-License-Identifier: Apache-2.0
// The input of Elixir's search, made from a profile.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/elixir/elixir_search.hpp"
#include "sim/policy/request.hpp"

namespace athanor {

/// Returns the input of Elixir's search for one training step. An operation is a module: the
/// parameters of a unit whose names differ after the last dot only. Forward and backward follow the
/// order of units. The first `num_recompute` units run again before their backward.
/// `activations`: bytes of activations at their peak.
[[nodiscard]] elixir::SearchInput elixir_input(const Profile& profile, const Platform& platform,
                                               const PlanRequest& request, int num_recompute,
                                               Bytes activations);

}  // namespace athanor
