// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/waste.hpp"

#include <algorithm>
#include <cmath>

namespace athanor {

Seconds store_seconds(double state_bytes, double store_bytes_per_second) {
  return state_bytes / store_bytes_per_second;
}

Seconds peer_seconds(double state_bytes, int num_machines, int num_copies,
                     double bytes_per_second) {
  return (num_copies - 1) * state_bytes / num_machines / bytes_per_second;
}

Seconds wasted_per_failure(const CheckpointTimes& times) {
  return times.write + times.interval / 2 + times.retrieve + times.restart;
}

double effective_ratio(const CheckpointTimes& times, double failures_per_second) {
  const double without_failures = times.interval / (times.interval + times.blocking);
  return std::max(0.0, without_failures - failures_per_second * wasted_per_failure(times));
}

Seconds expected_segment_seconds(Seconds work, Seconds checkpoint, Seconds restart,
                                 double failures_per_second) {
  return std::exp(failures_per_second * restart) *
         std::expm1(failures_per_second * (work + checkpoint)) / failures_per_second;
}

Seconds young_interval(Seconds checkpoint, double failures_per_second) {
  return std::sqrt(2 * checkpoint / failures_per_second);
}

Seconds daly_interval(Seconds checkpoint, double failures_per_second) {
  const double half_load = checkpoint * failures_per_second / 2;
  if (half_load >= 1) return 1 / failures_per_second;
  return young_interval(checkpoint, failures_per_second) *
             (1 + std::sqrt(half_load) / 3 + half_load / 9) -
         checkpoint;
}

Seconds saxena_interval(Seconds checkpoint, Seconds restart, double failures_per_second) {
  return std::sqrt(2 * (1 / failures_per_second + restart) * checkpoint + checkpoint * checkpoint);
}

}  // namespace athanor
