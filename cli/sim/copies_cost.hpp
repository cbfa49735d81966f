// SPDX-License-Identifier: Apache-2.0
// CopiesCost: the share of a step that copies of state on the GPU take, or copies of snapshots on
// another node, and how rare the latter would have to be to take little.
#pragma once

#include "sim/engine/engine.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace athanor::cli {

/// Share of a step that copies may cost before it is said how rare they would have to be: what
/// GEMINI (SOSP 2023) calls no overhead.
inline constexpr double kHiddenCopies = 0.01;

/// Step times of one plan with copies and without: of each version on another node, or, with
/// Snapshot::Copy, of state on the GPU in host memory.
struct CopiesCost {
  Seconds with = 0, without = 0;
  bool on_other_node = true;
  bool may_be_rarer = false;  ///< whether the plan may have copies in some steps alone
  int every_now = 1;          ///< steps for each copy
  /// Returns the share by which copies lengthen the step.
  [[nodiscard]] double share() const noexcept { return without > 0 ? with / without - 1 : 0; }
  /// Whether the idle time of the link, or of the step, holds them.
  [[nodiscard]] bool hides() const noexcept { return share() <= kHiddenCopies; }
  /// Returns the fewest steps for each copy at which copies would cost kHiddenCopies at most, if
  /// each lengthened training as it does now.
  [[nodiscard]] std::int64_t every() const noexcept;
};

/// Simulates the plan without copies; none where it has none.
[[nodiscard]] std::optional<CopiesCost> copies_cost(const Plan& plan, const Profile& profile,
                                                    Seconds step_seconds, Engine& engine);

/// Says what they cost, and at which frequency they would not.
[[nodiscard]] std::string copies_text(const CopiesCost& cost);

}  // namespace athanor::cli
