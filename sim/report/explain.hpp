// SPDX-License-Identifier: Apache-2.0
// Meaning of a predicted step: throughput, utilization, and the bottleneck.
#pragma once

#include "sim/bounds/bounds.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Share of the step during which one lane or shared resource is in use.
struct Utilization {
  std::string name;
  double share = 0;  ///< 0 to 1
};

struct Explanation {
  double tokens_per_second = 0;
  /// Model FLOPs (recompute not counted) per second over the platform's sustained matrix FLOPs per
  /// second; 0 where the platform does not state them.
  double model_flops_utilization = 0;
  std::vector<Utilization> utilizations;  ///< busiest first; never empty
  [[nodiscard]] const Utilization& bottleneck() const { return utilizations.front(); }
};

/// Utilizations of one step, from each operation's time alone, busiest first. A lane counts its
/// busy seconds at its least slowdown, a shared resource its demand over its capacity, both over
/// `step_seconds`. `tables` are of the program's ranks and threads.
[[nodiscard]] std::vector<Utilization> utilizations(const Program& program,
                                                    const Platform& platform,
                                                    const BoundTables& tables,
                                                    Seconds step_seconds);

/// Explains a step of `plan`, lowered to `program`, that takes `step_seconds`.
[[nodiscard]] Explanation explain(const Program& program, const Plan& plan, const Profile& profile,
                                  const Platform& platform, Seconds step_seconds);

}  // namespace athanor
