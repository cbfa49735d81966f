// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/snapshot_traffic.hpp"

#include "sim/failures/waste.hpp"

#include <algorithm>

namespace athanor {
namespace {

Seconds not_hidden(const LinkTraffic& link, double steps) {
  return std::max(0.0, link.traffic - steps * link.idle);
}

Seconds spread_on(const LinkTraffic& link, Seconds step, double steps) {
  if (link.traffic >= steps * link.idle) return steps * step;
  return link.traffic / link.idle * step;
}

}  // namespace

Seconds SnapshotTraffic::blocking(std::int64_t every) const noexcept {
  const auto steps = static_cast<double>(every);
  return std::max(not_hidden(copy, steps), not_hidden(send, steps));
}

Seconds SnapshotTraffic::spread(std::int64_t every) const noexcept {
  const auto steps = static_cast<double>(every);
  const Seconds widest = std::max(copy.traffic > 0 ? spread_on(copy, step, steps) : 0,
                                  send.traffic > 0 ? spread_on(send, step, steps) : 0);
  return widest + blocking(every);
}

std::int64_t best_snapshot_steps(const SnapshotTraffic& traffic, double failures_per_second,
                                 std::int64_t most) {
  const auto ratio = [&](std::int64_t every) {
    return effective_ratio({.interval = static_cast<double>(every) * traffic.step,
                            .blocking = traffic.blocking(every),
                            .write = traffic.spread(every)},
                           failures_per_second);
  };
  std::int64_t best = 1;
  for (std::int64_t every = 2; every <= most; ++every) {
    if (ratio(every) > ratio(best)) best = every;
  }
  return best;
}

}  // namespace athanor
