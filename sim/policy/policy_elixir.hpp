// SPDX-License-Identifier: Apache-2.0
// Elixir's plan: the answer of its published search (elixir/elixir_search.hpp) for a profile, as
// far as a Plan can say it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/policy/elixir/elixir_search.hpp"
#include "sim/policy/plan_builder.hpp"

#include <optional>
#include <string>

namespace athanor {

/// Returns the platform's own figures for the formulae of Elixir's constants: all GPUs together, on
/// copies of 10 GB and Adam on 1e9 elements. Throws InputError if the platform lacks a curve.
[[nodiscard]] elixir::Rates calibrated_rates(const Platform& platform, int num_gpus,
                                             int adam_threads);

/// Returns the search's answer as a plan, or nothing if the search has none. The plan has Elixir's
/// chunk size (chunks end with their unit, which Elixir's do not) and its cache in whole units.
/// Each chunk is placed as most of it is in Elixir's placement. The schedule is Elixir's: one unit
/// ahead, blocking copies, Adam after backward, first on the CPU, then on the GPU.
///
/// Not represented, in Elixir's favour: the copy of parameters into the buffer store before use,
/// 4-byte parameters in each step's first fetch of a chunk from the host and their 2-byte copy
/// back, collectives that are queued behind a prefetch's copy. Not represented, to its
/// disadvantage: it keeps gradients where parameters were (14 bytes per parameter; athanor's plans
/// take 16, and the two gradient buffers). Elixir cannot accumulate gradients; the plan does.
[[nodiscard]] std::optional<Plan> elixir_plan(const std::string& name, const Profile& profile,
                                              const Platform& platform, const PlanRequest& request,
                                              const BatchSplit& batch, int num_recompute,
                                              const elixir::Rates& rates);

}  // namespace athanor
