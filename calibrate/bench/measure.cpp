// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bench/measure.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

namespace athanor {
namespace {

/// Shortest duration of a batch: about a thousand times what reading the clock costs.
constexpr Seconds kShortestBatch = 20e-6;
constexpr int kLargestBatch = 4096;

Seconds time_batch(const std::function<void()>& body, int calls) {
  const Moment start = Moment::clock::now();
  for (int call = 0; call < calls; ++call) {
    body();
  }
  return seconds_between(start, Moment::clock::now()) / calls;
}

int batch_for(Seconds one_call) {
  const double calls = std::ceil(kShortestBatch / std::max(one_call, 1e-9));
  return static_cast<int>(std::min<double>(calls, kLargestBatch));
}

}  // namespace

Seconds seconds_between(Moment from, Moment to) noexcept {
  return std::chrono::duration<Seconds>(to - from).count();
}

Seconds time_once(const std::function<void()>& body) { return time_batch(body, 1); }

void sleep_for(Seconds seconds) {
  std::this_thread::sleep_for(std::chrono::duration<Seconds>(seconds));
}

Samples measure(const StoppingRule& rule, const std::function<void()>& body) {
  body();
  const int calls = batch_for(time_once(body));
  Samples samples;
  Seconds spent = 0;
  while (!rule.satisfied_by(samples) &&
         (samples.count() < rule.min_repetitions || spent < rule.max_seconds)) {
    samples.add(time_batch(body, calls));
    spent += samples.median() * calls;
  }
  return samples;
}

}  // namespace athanor
