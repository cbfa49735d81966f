// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/stream_lanes.hpp"

#include "executor/backend/steady_clock.hpp"
#include "executor/cuda/stream_memory_ops.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <utility>

namespace athanor::cuda {
namespace {

/// Polls `done` until it holds or `stopping`. The first polls do not sleep, since most waits are
/// short.
template <typename Condition>
void poll(const std::atomic<bool>& stopping, Condition done) {
  constexpr int kPollsBeforeSleep = 20'000;  // some hundred microseconds
  constexpr std::chrono::microseconds kSleep{20};
  for (int polls = 0; !stopping && !done(); ++polls) {
    if (polls > kPollsBeforeSleep) std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace

StreamLanes::StreamLanes(CudaDevice& device, const Program& program, std::int64_t first_step,
                         LaneCallbacks callbacks, std::atomic<bool>& cancelled,
                         std::function<void()> abort_collectives)
    : device_(device),
      program_(program),
      first_step_(first_step),
      callbacks_(std::move(callbacks)),
      cancelled_(cancelled),
      abort_collectives_(std::move(abort_collectives)),
      progress_(program, first_step),
      event_index_(program.operations.size(), -1),
      released_until_(first_step) {
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    if (is_host_lane(program.operations[i].lane)) continue;
    event_index_[i] = static_cast<std::int32_t>(events_per_step_++);
  }
  events_.resize(events_per_step_ * kEventSteps);
  tie_clocks();
  for (const Lane lane : kLanes) {
    if (!is_host_lane(lane) || progress_.operations(lane).empty()) continue;
    host_lanes_.emplace_back([this, lane] { run_host_lane(lane); });
  }
}

StreamLanes::~StreamLanes() {
  const bool idle = std::all_of(kLanes.begin(), kLanes.end(), [&](Lane lane) {
    return progress_.has_reached(lane, progress_.last_number(lane, released_until_ - 1));
  });
  if (!idle) fail("cancelled");
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  device_.issuer().wait_until_idle();
  for (std::thread& lane : host_lanes_) lane.join();
  device_.wait_idle();
}

void StreamLanes::release_until(std::int64_t end) {
  for (std::int64_t step = released_until_; step < end; ++step) {
    device_.issuer().post([this, step] { issue_step(step); });
  }
  {
    const std::lock_guard lock(mutex_);
    released_until_ = std::max(released_until_, end);
  }
  changed_.notify_all();
}

void StreamLanes::fail(const std::string& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return;
    failure_ = failure;
    stopping_ = true;
    cancelled_ = true;
    // Streams that wait for the host go on to their end; nobody reads their results.
    constexpr std::int64_t kFarAhead = 1 << 30;
    for (const Lane lane : kLanes) {
      if (is_host_lane(lane)) {
        progress_.set(lane, std::int64_t{*progress_.counter(lane)} + kFarAhead);
      }
    }
  }
  changed_.notify_all();
  abort_collectives_();
}

void StreamLanes::throw_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

bool StreamLanes::wait_for_release(std::int64_t step) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || released_until_ > step; });
  return !stopping_;
}

const StreamLanes::EventPair& StreamLanes::events(std::int32_t operation, std::int64_t step) const {
  const auto slot = static_cast<std::size_t>(step % kEventSteps) * events_per_step_;
  return events_[slot +
                 static_cast<std::size_t>(event_index_[static_cast<std::size_t>(operation)])];
}

void StreamLanes::issue_step(std::int64_t step) {
  try {
    device_.make_current();
    Seconds start = steady_seconds();
    for (std::size_t i = 0; i < program_.operations.size() && !stopping_; ++i) {
      if (event_index_[i] >= 0) start = issue(static_cast<std::int32_t>(i), step, start);
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

Seconds StreamLanes::issue(std::int32_t operation, std::int64_t step, Seconds start) {
  const Operation& op = program_.operations[static_cast<std::size_t>(operation)];
  const cudaStream_t stream = device_.stream(op.lane);
  for (const std::int32_t earlier : op.waits) let_wait(op.lane, earlier, step);
  if (step > first_step_) {
    for (const std::int32_t earlier : op.previous_waits) let_wait(op.lane, earlier, step - 1);
  }
  const EventPair& pair = events(operation, step);
  pair.start.record(stream);
  callbacks_.run(operation, step);
  pair.end.record(stream);
  // Before the operation can be reported as done; the flag counts for the next one.
  const Seconds end = steady_seconds();
  if (callbacks_.issued) callbacks_.issued(operation, step, start, end);
  stream_write(stream, progress_.counter(op.lane),
               static_cast<std::uint32_t>(progress_.number(program_, operation, step)));
  return end;
}

/// Makes a stream wait for an operation of another lane, unless it waits for a later one already:
/// lanes are in order.
void StreamLanes::let_wait(Lane lane, std::int32_t operation, std::int64_t step) {
  const Lane other = program_.operations[static_cast<std::size_t>(operation)].lane;
  const std::int64_t number = progress_.number(program_, operation, step);
  std::int64_t& awaited = awaited_[lane_index(lane)][lane_index(other)];
  if (other == lane || awaited >= number) return;
  awaited = number;
  const cudaStream_t stream = device_.stream(lane);
  if (is_host_lane(other)) {
    stream_wait_at_least(stream, progress_.counter(other), static_cast<std::uint32_t>(number));
  } else {
    check(cudaStreamWaitEvent(stream, events(operation, step).end.get(), 0),
          "let a stream wait for another");
  }
}

void StreamLanes::run_host_lane(Lane lane) {
  try {
    for (std::int64_t step = first_step_; wait_for_release(step); ++step) {
      for (const std::int32_t operation : progress_.operations(lane)) {
        run_on_host(operation, step);
        if (stopping_) return;
      }
    }
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void StreamLanes::run_on_host(std::int32_t operation, std::int64_t step) {
  const Operation& op = program_.operations[static_cast<std::size_t>(operation)];
  poll(stopping_, [&] { return waits_are_over(op, step); });
  if (stopping_) return;
  callbacks_.started(operation, step);
  const Seconds start = steady_seconds();
  callbacks_.run(operation, step);
  callbacks_.done(operation, step, start, steady_seconds());
  const std::lock_guard lock(mutex_);
  if (!failure_) progress_.set(op.lane, progress_.number(program_, operation, step));
}

bool StreamLanes::waits_are_over(const Operation& op, std::int64_t step) const {
  const auto is_done = [&](std::int32_t earlier, std::int64_t of_step) {
    const Lane lane = program_.operations[static_cast<std::size_t>(earlier)].lane;
    return progress_.has_reached(lane, progress_.number(program_, earlier, of_step));
  };
  return std::all_of(op.waits.begin(), op.waits.end(),
                     [&](std::int32_t earlier) { return is_done(earlier, step); }) &&
         (step == first_step_ ||
          std::all_of(op.previous_waits.begin(), op.previous_waits.end(),
                      [&](std::int32_t earlier) { return is_done(earlier, step - 1); }));
}

}  // namespace athanor::cuda
