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
};

}  // namespace

Disturbance measure_pair(const std::string& first_name, const Activity& first,
                         const std::string& second_name, const Activity& second,
                         const StoppingRule& rule) {
  const auto slowdown_of = [&](const Activity& activity, const Activity& other) {
    const Seconds alone = measure(rule, activity).median();
    return slowdown(median_beside(activity, {other}, rule), alone);
  };
  const double of_first = slowdown_of(first, second);
  const double of_second = first_name == second_name ? of_first : slowdown_of(second, first);
  return {first_name, second_name, of_first, of_second};
}

std::vector<Disturbance> measure_disturbances(int compute_threads, const StoppingRule& rule) {
  std::map<Lane, LaneActivities> lanes;
  for (const Lane lane : kLanes) {
    if (is_nvme_lane(lane)) continue;
    lanes[lane] = {lane_activity(lane, compute_threads), lane_activity(lane, compute_threads)};
  }
  std::vector<Disturbance> disturbances;
  for (auto first = lanes.begin(); first != lanes.end(); ++first) {
    for (auto second = first; second != lanes.end(); ++second) {
      disturbances.push_back(measure_pair(lane_name(first->first), first->second.first,
                                          lane_name(second->first), second->second.second, rule));
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
