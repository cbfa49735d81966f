// SPDX-License-Identifier: Apache-2.0
// Times a function until a stopping rule is satisfied.
#pragma once

#include "calibrate/bench/samples.hpp"

#include <chrono>
#include <functional>

namespace athanor {

using Moment = std::chrono::steady_clock::time_point;

[[nodiscard]] Seconds seconds_between(Moment from, Moment to) noexcept;

/// Speeds closer than this count as one: so much do they move by themselves.
inline constexpr double kSameSpeed = 0.02;

/// Wall-clock time of one call.
[[nodiscard]] Seconds time_once(const std::function<void()>& body);

void sleep_for(Seconds seconds);

/// Warms up, then repeats `body`. Calls shorter than the clock can resolve are timed in batches;
/// each sample is the mean of its batch.
[[nodiscard]] Samples measure(const StoppingRule& rule, const std::function<void()>& body);

}  // namespace athanor
