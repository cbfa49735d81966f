// SPDX-License-Identifier: Apache-2.0
// Elixir's plan: what its published search (elixir_search.hpp) chooses for a profile, as far as a
// Plan can say it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/policy/elixir/elixir_search.hpp"
#include "sim/policy/plan_builder.hpp"

#include <optional>
#include <string>

namespace athanor {

/// What the formulae of Elixir's constants stand for, read off `platform`: all GPUs together, on
/// copies of 10 GB and Adam on 1e9 elements. Throws InputError where it lacks a curve.
[[nodiscard]] elixir::Rates calibrated_rates(const Platform& platform, int num_gpus,
                                             int adam_threads);

/// The search's answer as a plan: its chunk size (chunks end with their unit, which Elixir's do
/// not), its cache in whole units, each chunk where most of it lies in Elixir's placement, and
/// Elixir's schedule: one unit ahead, blocking copies, Adam after backward, first on the CPU, then
/// on the GPU. Nothing where the search has no answer.
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
