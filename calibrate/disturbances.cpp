// SPDX-License-Identifier: Apache-2.0
#include "calibrate/disturbances.hpp"

#include "calibrate/activities.hpp"
#include "calibrate/measure.hpp"

#include <algorithm>
#include <atomic>
#include <latch>
#include <map>
#include <thread>
#include <utility>

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

/// Two sets, because a lane beside itself needs buffers of its own.
struct LaneActivities {
  Activity first, second;
  Seconds alone = 0;
};

}  // namespace

std::vector<Disturbance> measure_disturbances(int compute_threads, const StoppingRule& rule) {
  std::map<Lane, LaneActivities> lanes;
  for (const Lane lane : kLanes) {
    LaneActivities& entry = lanes[lane];
    entry.first = lane_activity(lane, compute_threads);
    entry.second = lane_activity(lane, compute_threads);
    entry.alone = measure(rule, entry.first).median();
  }
  std::vector<Disturbance> disturbances;
  for (auto first = lanes.begin(); first != lanes.end(); ++first) {
    for (auto second = first; second != lanes.end(); ++second) {
      const auto& [a, b] = std::pair(first->second, second->second);
      const Seconds first_seconds = median_beside(a.first, {b.second}, rule);
      const Seconds second_seconds =
          first == second ? first_seconds : median_beside(b.second, {a.first}, rule);
      disturbances.push_back({lane_name(first->first), lane_name(second->first),
                              slowdown(first_seconds, a.alone), slowdown(second_seconds, b.alone)});
    }
  }
  return disturbances;
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
