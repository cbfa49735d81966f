// SPDX-License-Identifier: Apache-2.0
// The thread that waits for a step observes the streams: flags tell which operations are done, and
// events tell when.
#include "executor/backend/steady_clock.hpp"
#include "executor/cuda/stream_lanes.hpp"

#include <algorithm>
#include <chrono>
#include <limits>

namespace athanor::cuda {
namespace {

constexpr std::array kStreamLanes{Lane::Compute, Lane::Collective, Lane::H2D, Lane::D2H};

}  // namespace

/// Finds the origin event's time on the host's clock. It lies between two readings of that clock;
/// the closest of a few pairs is taken.
void StreamLanes::tie_clocks() {
  constexpr int kTries = 20;
  const cudaStream_t stream = device_.stream(Lane::Compute);
  Seconds closest = std::numeric_limits<Seconds>::max();
  for (int i = 0; i < kTries; ++i) {
    Event event;
    const Seconds before = steady_seconds();
    event.record(stream);
    check(cudaEventSynchronize(event.get()), "tie the GPU's clock to the host's");
    const Seconds width = steady_seconds() - before;
    if (width >= closest) continue;
    closest = width;
    std::swap(origin_, event);
    reference_seconds_ = before + width / 2;
  }
}

void StreamLanes::wait_for_step(std::int64_t step) {
  constexpr std::chrono::microseconds kPeriod{100};
  while (true) {
    report_progress();
    throw_failure();
    const bool done = std::all_of(kLanes.begin(), kLanes.end(), [&](Lane lane) {
      const std::int64_t last = progress_.last_number(lane, step);
      return is_host_lane(lane) ? progress_.has_reached(lane, last)
                                : reported_[lane_index(lane)] >= last;
    });
    if (done) return;
    std::this_thread::sleep_for(kPeriod);
  }
}

void StreamLanes::report_progress() {
  for (const Lane lane : kStreamLanes) {
    if (!progress_.operations(lane).empty()) report_lane(lane);
  }
}

void StreamLanes::report_lane(Lane lane) {
  std::int64_t& reported = reported_[lane_index(lane)];
  std::int64_t& announced = announced_[lane_index(lane)];
  while (true) {
    const auto [operation, step] = progress_.operation_at(lane, reported + 1);
    if (step >= released_until_) return;
    const Operation& op = program_.operations[static_cast<std::size_t>(operation)];
    if (announced == reported && waits_are_over(op, step)) {
      callbacks_.started(operation, step);
      ++announced;
    }
    if (!progress_.has_reached(lane, reported + 1)) return;
    report_done(operation, step);
    ++reported;
  }
}

void StreamLanes::report_done(std::int32_t operation, std::int64_t step) {
  const EventPair& pair = events(operation, step);
  const Seconds start = reference_seconds_ + pair.start.since(*reference_);
  const Seconds end = reference_seconds_ + pair.end.since(*reference_);
  callbacks_.done(operation, step, start, end);
  // The step's last event on the compute lane becomes the reference: in single precision, only
  // short distances are exact enough.
  if (operation == progress_.operations(Lane::Compute).back()) {
    reference_ = &pair.end;
    reference_seconds_ = end;
  }
}

}  // namespace athanor::cuda
