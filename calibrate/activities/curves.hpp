// SPDX-License-Identifier: Apache-2.0
// Curves of what one rank does alone: seconds by size.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/samples.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <map>
#include <vector>

namespace athanor {

/// Measures `make(size)` at each of the ascending `sizes`. Points are means of the middle half.
[[nodiscard]] Curve measure_curve(const std::vector<std::int64_t>& sizes, const StoppingRule& rule,
                                  const std::function<Activity(std::int64_t)>& make);

/// Measures `make(size, threads)` with 1, 2, 4, .. threads, with three quarters of `host_cores` and
/// with all of them. Returns curves by number of threads. Sizes that would take few threads long
/// are left out.
[[nodiscard]] std::map<int, Curve> measure_by_threads(
    const std::vector<std::int64_t>& sizes, int host_cores, const StoppingRule& rule,
    const std::function<Activity(std::int64_t, int)>& make);

}  // namespace athanor
