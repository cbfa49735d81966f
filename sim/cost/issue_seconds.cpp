// SPDX-License-Identifier: Apache-2.0
// Times that the host takes to launch operations.
#include "sim/cost/costs.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <vector>

namespace athanor {

double launch_slowdown(const Program& program, const Platform& platform) {
  const auto found = platform.issue.find(Lane::Compute);
  if (found == platform.issue.end() || found->second <= 0 || program.launch_seconds <= 0) return 1;
  return found->second / program.launch_seconds;
}

std::vector<Seconds> issue_seconds(const Program& program, const Platform& platform) {
  const double slowdown = launch_slowdown(program, platform);
  std::vector<Seconds> seconds;
  seconds.reserve(program.operations.size());
  for (const Operation& op : program.operations) {
    const auto found = platform.issue.find(op.lane);
    seconds.push_back(slowdown * op.issue_seconds +
                      (found == platform.issue.end() ? 0 : found->second));
  }
  return seconds;
}

}  // namespace athanor
