// SPDX-License-Identifier: Apache-2.0
// Elixir's published search ("optimal"), as far as a Plan can say it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/tune/plan_builder.hpp"

namespace athanor {

/// Chunk size by fewest bytes moved under Belady's rule, one decision (cache or optimizer states
/// first) from constants fitted on its authors' node, then greedy first fit in the order of use.
///
/// Represented: chunk-size search, number of cache blocks (rounded to whole units, which is what
/// our slots hold), placement per chunk of parameters and optimizer state together, prefetch of
/// exactly one unit, its memory margins.
/// Not represented, all in Elixir's favour: blocking copies, the copy of every parameter into its
/// buffer store, chunks that hold parameters of several units, no gradient accumulation, optimizer
/// after backward (ask for clipping to get that).
/// `num_recompute`: leading units that recompute.
[[nodiscard]] Plan elixir_plan(const Profile& profile, const Platform& platform,
                               const PlanRequest& request, const BatchSplit& batch,
                               int num_recompute);

}  // namespace athanor
