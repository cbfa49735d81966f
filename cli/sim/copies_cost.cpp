// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/copies_cost.hpp"

#include "cli/sim/report.hpp"
#include "sim/lowering/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace athanor::cli {

/// Rounding does not count: a share of exactly 2 % asks for every second step.
std::int64_t CopiesCost::every() const noexcept {
  constexpr double kRounding = 1e-9;
  return std::max<std::int64_t>(
      1, std::llround(std::ceil(every_now * share() / kHiddenCopies - kRounding)));
}

std::optional<CopiesCost> copies_cost(const Plan& plan, const Profile& profile,
                                      Seconds step_seconds, Engine& engine) {
  const bool on_other_node = plan.snapshot_copies > 1;
  if (!on_other_node && plan.snapshot != Snapshot::Copy) return std::nullopt;
  Plan without = plan;
  if (!on_other_node) {
    without.snapshot = Snapshot::None;
    without.snapshot_every = 1;
  }
  without.snapshot_copies = 1;
  without.snapshot_send = SnapshotSend::Direct;
  const Timeline timeline = engine.simulate(lower(profile, without), {.record_intervals = false});
  return CopiesCost{
      .with = step_seconds,
      .without = timeline.step_seconds,
      .on_other_node = on_other_node,
      .may_be_rarer = plan.snapshot == Snapshot::Copy && gpu_optimizer_share(plan) == 1,
      .every_now = plan.snapshot_every};
}

namespace {

/// Says which frequency would do, or how a plan comes to have one; empty where every step does.
std::string rarer_text(const CopiesCost& cost) {
  if (cost.hides()) return "";
  if (!cost.may_be_rarer) {
    return "; a plan with all state on the GPU can copy in one of N steps (--snapshot "
           "copy,every=N)";
  }
  if (cost.every() > kMostSnapshotEvery) {
    return fmt::format("; even in one of {} steps they would cost {:.1f} %", kMostSnapshotEvery,
                       100 * cost.share() * cost.every_now / kMostSnapshotEvery);
  }
  return fmt::format(
      "; one in {0} steps would cost {1:.0f} %, and a kill as many steps (--snapshot "
      "copy,every={0})",
      cost.every(), 100 * kHiddenCopies);
}

}  // namespace

std::string copies_text(const CopiesCost& cost) {
  const double percent = 100 * cost.share();
  if (!cost.on_other_node) {
    return fmt::format("the idle time of the step {} them: snapshots cost {:.1f} % of the step{}",
                       cost.hides() ? "holds" : "does not hold", std::max(0.0, percent),
                       rarer_text(cost));
  }
  if (cost.hides()) {
    return fmt::format("the link's idle time holds them: they cost {:.1f} % of the step",
                       std::max(0.0, percent));
  }
  const std::int64_t every = cost.every();
  const std::string way =
      cost.may_be_rarer
          ? fmt::format("--snapshot copy,every={},copies=2", every)
          : fmt::format(
                "simulate --failures RATE --snapshot every={},copies=2 weighs that; train "
                "copies every step",
                every);
  return fmt::format(
      "the link's idle time does not hold them: they cost {:.1f} % of the step; one in {} steps "
      "would cost {:.0f} %, and a lost machine as many steps ({})",
      percent, every, 100 * kHiddenCopies, way);
}

}  // namespace athanor::cli
