// SPDX-License-Identifier: Apache-2.0
#include "calibrate/curves.hpp"

#include "calibrate/measure.hpp"

#include <set>

namespace athanor {

Curve measure_curve(const std::vector<std::int64_t>& sizes, const StoppingRule& rule,
                    const std::function<Activity(std::int64_t)>& make) {
  Curve curve;
  for (const std::int64_t size : sizes) {
    const Samples samples = measure(rule, make(size));
    curve.points.push_back(
        {static_cast<double>(size), samples.median(), samples.interquartile_range()});
  }
  return curve;
}

std::map<int, Curve> measure_adam(const std::vector<std::int64_t>& elements, int host_cores,
                                  const StoppingRule& rule) {
  std::set<int> threads{host_cores};
  for (int count = 1; count < host_cores; count *= 2) {
    threads.insert(count);
  }
  std::map<int, Curve> curves;
  for (const int count : threads) {
    curves[count] = measure_curve(
        elements, rule, [count](std::int64_t size) { return adam_activity(size, count); });
  }
  return curves;
}

}  // namespace athanor
