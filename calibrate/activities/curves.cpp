// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/curves.hpp"

#include "calibrate/bench/measure.hpp"

#include <algorithm>
#include <set>

namespace athanor {

Curve measure_curve(const std::vector<std::int64_t>& sizes, const StoppingRule& rule,
                    const std::function<Activity(std::int64_t)>& make) {
  Curve curve;
  for (const std::int64_t size : sizes) {
    const Samples samples = measure(rule, make(size));
    curve.points.push_back(
        {static_cast<double>(size), samples.interquartile_mean(), samples.interquartile_range()});
  }
  return curve;
}

std::map<int, Curve> measure_by_threads(const std::vector<std::int64_t>& sizes, int host_cores,
                                        const StoppingRule& rule,
                                        const std::function<Activity(std::int64_t, int)>& make) {
  // A thread updates at best a few hundred million parameters a second.
  constexpr std::int64_t kLargestOfThread = 1 << 23;
  std::set<int> threads{host_cores, std::max(1, 3 * host_cores / 4)};
  for (int count = 1; count < host_cores; count *= 2) {
    threads.insert(count);
  }
  std::map<int, Curve> curves;
  for (const int count : threads) {
    std::vector<std::int64_t> some = sizes;
    std::erase_if(some, [count](std::int64_t size) { return size > count * kLargestOfThread; });
    curves[count] = measure_curve(some, rule, [&](std::int64_t size) { return make(size, count); });
  }
  return curves;
}

}  // namespace athanor
