// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/copies_cost.hpp"

#include "sim/lowering/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace athanor::cli {

/// Rounding does not count: a share of exactly 2 % asks for every second step.
std::int64_t CopiesCost::every() const noexcept {
  constexpr double kRounding = 1e-9;
  return std::max<std::int64_t>(1, std::llround(std::ceil(share() / kHiddenCopies - kRounding)));
}

std::optional<CopiesCost> copies_cost(const Plan& plan, const Profile& profile,
                                      Seconds step_seconds, Engine& engine) {
  const bool on_other_node = plan.snapshot_copies > 1;
  if (!on_other_node && plan.snapshot != Snapshot::Copy) return std::nullopt;
  Plan without = plan;
  if (!on_other_node) without.snapshot = Snapshot::None;
  without.snapshot_copies = 1;
  without.snapshot_send = SnapshotSend::Direct;
  const Timeline timeline = engine.simulate(lower(profile, without), {.record_intervals = false});
  return CopiesCost{step_seconds, timeline.step_seconds, on_other_node};
}

std::string copies_text(const CopiesCost& cost) {
  const double percent = 100 * cost.share();
  if (!cost.on_other_node) {
    return fmt::format("the idle time of the step {} them: snapshots cost {:.1f} % of the step",
                       cost.hides() ? "holds" : "does not hold", std::max(0.0, percent));
  }
  if (cost.hides()) {
    return fmt::format("the link's idle time holds them: they cost {:.1f} % of the step",
                       std::max(0.0, percent));
  }
  return fmt::format(
      "the link's idle time does not hold them: they cost {:.1f} % of the step; one in {} steps "
      "would cost {:.0f} %, and a lost machine as many steps (simulate --failures RATE --snapshot "
      "every={},copies=2 weighs that; train copies every step)",
      percent, cost.every(), 100 * kHiddenCopies, cost.every());
}

}  // namespace athanor::cli
