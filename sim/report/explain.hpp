// SPDX-License-Identifier: Apache-2.0
// What a predicted step means to its user: throughput, utilization, and what holds it up.
#pragma once

#include "sim/bounds/bounds.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/program.hpp"

#include <string>
#include <vector>

namespace athanor {

/// How much of the step one lane or shared resource is in use.
struct Utilization {
  std::string name;
  double share = 0;  ///< 0 to 1
};

struct Explanation {
  double tokens_per_second = 0;
  /// Model FLOPs (recompute not counted) per second over the platform's sustained matrix FLOPs per
  /// second; 0 where the platform does not state them.
  double model_flops_utilization = 0;
  std::vector<Utilization> loads;  ///< busiest first; never empty
  [[nodiscard]] const Utilization& bottleneck() const { return loads.front(); }
};

/// WhichSamples of one step, from each operation's time alone: a lane's busy seconds at its least
/// slowdown, and a shared resource's demand over its capacity, both over `step_seconds`.
/// `slowdown`: of the program's ranks and threads.
[[nodiscard]] std::vector<Utilization> step_loads(const Program& program, const Platform& platform,
                                                  const BoundTables& slowdown,
                                                  Seconds step_seconds);

[[nodiscard]] Explanation explain(const Program& program, const Plan& plan, const Profile& profile,
                                  const Platform& platform, Seconds step_seconds);

}  // namespace athanor
