// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/print_profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace athanor::cli {
namespace {

/// Sums up the stages of a phase.
PhaseCost whole_phase(const StagedPhase& phase) {
  PhaseCost whole;
  for (const PhaseCost& stage : phase.stages) {
    whole.seconds += stage.seconds;
    whole.issue_seconds += stage.issue_seconds;
    whole.peak_bytes = std::max(whole.peak_bytes, stage.peak_bytes);
  }
  return whole;
}

/// Prints a unit's costs where tokens travel, below its own. Exchanges are not in them.
void print_staged(const StagedCost& staged) {
  const PhaseCost forward = whole_phase(staged.forward_keep);
  const PhaseCost backward = whole_phase(staged.backward);
  fmt::print(stderr, "  {:<20} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n",
             fmt::format("{}, {} ranks", staged.pattern, staged.world_size),
             format_seconds(forward.seconds), format_seconds(whole_phase(staged.recompute).seconds),
             format_seconds(backward.seconds),
             format_seconds(forward.issue_seconds + backward.issue_seconds),
             format_bytes(staged.saved_bytes),
             format_bytes(std::max(forward.peak_bytes, backward.peak_bytes)));
}

/// Says what backward takes with the fastest kernels, below the costs of a unit.
void print_nondeterministic(const PhaseCost& backward) {
  fmt::print(stderr, "  {:<20} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "not deterministic",
             "", "", format_seconds(backward.seconds), "", "", format_bytes(backward.peak_bytes));
}

/// Says what phases take as CUDA graphs, below the costs of a unit. Their memory is the driver's.
void print_graphs(const UnitCost& cost) {
  const ReplayCost &forward = *cost.forward_keep.replay, &backward = *cost.backward.replay;
  const Seconds recompute = cost.recompute.replay ? cost.recompute.replay->seconds : 0;
  fmt::print(stderr, "  {:<20} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "as CUDA graphs",
             format_seconds(forward.seconds), format_seconds(recompute),
             format_seconds(backward.seconds),
             format_seconds(forward.issue_seconds + backward.issue_seconds), "",
             format_bytes(forward.graph_bytes + backward.graph_bytes));
}

}  // namespace

void print_costs(const Profile& profile) {
  fmt::print(stderr, "{:<16} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", "unit class",
             "batch", "forward", "recompute", "backward", "launching", "saved", "peak");
  for (const UnitCost& cost : profile.costs) {
    fmt::print(stderr, "{:<16} {:>5} {:>10} {:>10} {:>10} {:>10} {:>10} {:>10}\n", cost.unit_class,
               cost.micro_batch, format_seconds(cost.forward_keep.seconds),
               format_seconds(cost.recompute.seconds), format_seconds(cost.backward.seconds),
               format_seconds(cost.forward_keep.issue_seconds + cost.backward.issue_seconds),
               format_bytes(cost.saved_bytes),
               format_bytes(std::max(cost.forward_keep.peak_bytes, cost.backward.peak_bytes)));
    if (cost.forward_keep.replay && cost.backward.replay) print_graphs(cost);
    if (cost.nondeterministic_backward) print_nondeterministic(*cost.nondeterministic_backward);
    for (const StagedCost& staged : cost.staged) print_staged(staged);
  }
}

}  // namespace athanor::cli
