// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/pair_contention.hpp"

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/measure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

namespace athanor {
namespace {

/// Repeats activities on threads of their own while it lives.
class Background {
 public:
  explicit Background(const std::vector<Activity>& activities)
      : running_(static_cast<std::ptrdiff_t>(activities.size())) {
    for (const Activity& activity : activities) {
      threads_.emplace_back([this, activity] {
        activity();
        running_.count_down();
        while (!stop_.load(std::memory_order_relaxed)) {
          activity();
        }
      });
    }
    running_.wait();
  }
  ~Background() { stop_ = true; }
  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

 private:
  std::atomic<bool> stop_{false};
  std::latch running_;
  std::vector<std::jthread> threads_;  // last: joined before the flag is gone
};

Seconds median_while_running(const Activity& activity, const std::vector<Activity>& others,
                             const StoppingRule& rule) {
  const Background background(others);
  return measure(rule, activity).median();
}

double slowdown(Seconds together, Seconds alone) { return std::max(1.0, together / alone); }

}  // namespace

std::string describe(const PairSlowdown& pair) {
  return fmt::format("{} | {}: {:.2f} and {:.2f} times as long", lane_name(pair.first),
                     lane_name(pair.second), pair.first_slowdown, pair.second_slowdown);
}

std::vector<PairSlowdown> measure_pairs(const std::map<Lane, LaneActivities>& lanes,
                                        const StoppingRule& rule) {
  std::map<Lane, Seconds> alone;
  for (const auto& [lane, activities] : lanes) {
    alone[lane] = measure(rule, activities.first).median();
  }
  std::vector<PairSlowdown> pairs;
  for (auto first = lanes.begin(); first != lanes.end(); ++first) {
    for (auto second = first; second != lanes.end(); ++second) {
      const LaneActivities& a = first->second;
      const LaneActivities& b = second->second;
      const Seconds first_seconds = median_while_running(a.first, {b.second}, rule);
      const Seconds second_seconds =
          first == second ? first_seconds : median_while_running(b.second, {a.first}, rule);
      pairs.push_back({first->first, second->first, slowdown(first_seconds, alone[first->first]),
                       slowdown(second_seconds, alone[second->first])});
    }
  }
  return pairs;
}

std::vector<PairSlowdown> measure_lane_pairs(int compute_threads, const StoppingRule& rule) {
  std::map<Lane, LaneActivities> lanes;
  for (const Lane lane : kLanes) {
    if (is_nvme_lane(lane)) continue;
    lanes[lane] = {lane_activity(lane, compute_threads), lane_activity(lane, compute_threads)};
  }
  return measure_pairs(lanes, rule);
}

ConcurrentRun measure_concurrent_run(Lane lane, int count, int compute_threads,
                                     const StoppingRule& rule) {
  const Activity own = lane_activity(lane, compute_threads);
  const Seconds alone = measure(rule, own).median();
  std::vector<Activity> others;
  for (int other = 1; other < count; ++other) {
    others.push_back(lane_activity(lane, compute_threads));
  }
  return {lane, count, slowdown(median_while_running(own, others, rule), alone)};
}

}  // namespace athanor
