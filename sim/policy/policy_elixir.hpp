// SPDX-License-Identifier: Apache-2.0
// Elixir's plan: the choice of its published search (elixir_search.hpp) for a profile, as far as a
// Plan can express it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/policy/elixir/elixir_search.hpp"
#include "sim/policy/plan_builder.hpp"

#include <optional>
#include <string>

namespace athanor {

/// Returns the platform's figures for the quantities that Elixir's constants stand for: rates of
/// all GPUs together, on copies of 10 GB and Adam on 1e9 elements. Throws InputError where
/// `platform` lacks a curve.
[[nodiscard]] elixir::Rates calibrated_rates(const Platform& platform, int num_gpus,
                                             int adam_threads);

/// Returns the answer of Elixir's search as a plan, or nothing where the search has no answer.
/// The plan takes the search's chunk size; its chunks end with their unit, which Elixir's do not.
/// The cache is counted in whole units. Each chunk goes where most of it lies in Elixir's
/// placement. The schedule is Elixir's: one unit ahead, blocking copies, Adam after backward, first
/// on the CPU, then on the GPU.
///
/// Three costs are not represented, in Elixir's favour. It copies parameters into the buffer store
/// before use. Each step's first fetch of a chunk from the host moves 4-byte parameters, and their
/// 2-byte copy goes back. Its collectives are queued behind a prefetch's copy. One saving is not
/// represented, to its disadvantage: it keeps gradients in the place of parameters. That takes 14
/// bytes per parameter; athanor's plans take 16, and the two gradient buffers. Elixir cannot
/// accumulate gradients; the plan does.
[[nodiscard]] std::optional<Plan> elixir_plan(const std::string& name, const Profile& profile,
                                              const Platform& platform, const PlanRequest& request,
                                              const BatchSplit& batch, int num_recompute,
                                              const elixir::Rates& rates);

}  // namespace athanor
