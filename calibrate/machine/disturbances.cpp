// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/disturbances.hpp"

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/measure.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <thread>

namespace athanor {
namespace {

/// Repeats activities on threads of their own while alive.
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

Seconds median_beside(const Activity& activity, const std::vector<Activity>& others,
                      const StoppingRule& rule) {
  const Background background(others);
  return measure(rule, activity).median();
}

double slowdown(Seconds together, Seconds alone) { return std::max(1.0, together / alone); }

}  // namespace

std::vector<Disturbance> measure_pairs(const std::map<Lane, LaneActivities>& lanes,
                                       const StoppingRule& rule) {
  std::map<Lane, Seconds> alone;
  for (const auto& [lane, activities] : lanes) {
    alone[lane] = measure(rule, activities.first).median();
  }
  std::vector<Disturbance> disturbances;
  for (auto first = lanes.begin(); first != lanes.end(); ++first) {
    for (auto second = first; second != lanes.end(); ++second) {
      const LaneActivities& a = first->second;
      const LaneActivities& b = second->second;
      const Seconds first_seconds = median_beside(a.first, {b.second}, rule);
      const Seconds second_seconds =
          first == second ? first_seconds : median_beside(b.second, {a.first}, rule);
      disturbances.push_back({lane_name(first->first), lane_name(second->first),
                              slowdown(first_seconds, alone[first->first]),
                              slowdown(second_seconds, alone[second->first])});
    }
  }
  return disturbances;
}

std::vector<Disturbance> measure_disturbances(int compute_threads, const StoppingRule& rule) {
  std::map<Lane, LaneActivities> lanes;
  for (const Lane lane : kLanes) {
    if (is_nvme_lane(lane)) continue;
    lanes[lane] = {lane_activity(lane, compute_threads), lane_activity(lane, compute_threads)};
  }
  return measure_pairs(lanes, rule);
}

Crowd measure_crowd(Lane lane, int count, int compute_threads, const StoppingRule& rule) {
  const Activity own = lane_activity(lane, compute_threads);
  const Seconds alone = measure(rule, own).median();
  std::vector<Activity> others;
  for (int other = 1; other < count; ++other) {
    others.push_back(lane_activity(lane, compute_threads));
  }
  return {lane, count, slowdown(median_beside(own, others, rule), alone)};
}

}  // namespace athanor
