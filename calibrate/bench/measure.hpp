// SPDX-License-Identifier: Apache-2.0
// Clock and stopwatch: times a function until a stopping rule is satisfied.
#pragma once

#include "calibrate/bench/samples.hpp"

#include <chrono>
#include <functional>

namespace athanor {

using Moment = std::chrono::steady_clock::time_point;

[[nodiscard]] Seconds seconds_between(Moment from, Moment to) noexcept;

/// Speeds that differ by less than this share count as equal: they vary by as much on their own.
inline constexpr double kSameSpeed = 0.02;

/// Returns the wall-clock time of one call.
[[nodiscard]] Seconds time_once(const std::function<void()>& body);

void sleep_for(Seconds seconds);

/// Warms up, then repeats `body` until `rule` is satisfied. Calls that are too short for the clock
/// are timed in batches; each sample is the mean of its batch.
[[nodiscard]] Samples measure(const StoppingRule& rule, const std::function<void()>& body);

}  // namespace athanor
