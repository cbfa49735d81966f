// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/lane_scheduler.hpp"

#include "executor/backend/steady_clock.hpp"
#include "sim/base/errors.hpp"

#include <algorithm>
#include <exception>
#include <limits>
#include <utility>

namespace athanor {

LaneScheduler::LaneScheduler(const Program& program, std::int64_t first_step,
                             LaneCallbacks callbacks, std::atomic<bool>& cancelled)
    : program_(program),
      first_step_(first_step),
      callbacks_(std::move(callbacks)),
      cancelled_(cancelled),
      done_until_(program.operations.size(), first_step),
      released_until_(first_step) {
  lane_done_until_.fill(first_step);
  find_waiting_lanes();
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    lane_operations_[static_cast<std::size_t>(program.operations[i].lane)].push_back(
        static_cast<std::int32_t>(i));
  }
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
    if (lane_operations_[lane].empty()) {
      lane_done_until_[lane] = std::numeric_limits<std::int64_t>::max();
      continue;
    }
    lanes_.emplace_back([this, lane] {
      if (callbacks_.entered) callbacks_.entered(kLanes[lane]);
      run_lane(lane);
    });
  }
}

void LaneScheduler::find_waiting_lanes() {
  waiting_lanes_.resize(program_.operations.size());
  for (const Operation& op : program_.operations) {
    const auto lane = static_cast<std::size_t>(op.lane);
    for (const auto* waits : {&op.waits, &op.previous_waits}) {
      for (const std::int32_t operation : *waits) {
        waiting_lanes_[static_cast<std::size_t>(operation)][lane] = true;
      }
    }
  }
}

LaneScheduler::~LaneScheduler() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    const bool idle = std::all_of(lane_done_until_.begin(), lane_done_until_.end(),
                                  [&](std::int64_t done) { return done >= released_until_; });
    if (!idle) cancelled_ = true;
  }
  wake_everybody();
  for (std::thread& lane : lanes_) lane.join();
}

void LaneScheduler::release_until(std::int64_t end) {
  {
    const std::lock_guard lock(mutex_);
    released_until_ = std::max(released_until_, end);
  }
  wake_everybody();
}

void LaneScheduler::wait_for_step(std::int64_t step) {
  std::unique_lock lock(mutex_);
  step_changed_.wait(lock, [&] {
    return failure_ || std::all_of(lane_done_until_.begin(), lane_done_until_.end(),
                                   [&](std::int64_t done) { return done > step; });
  });
  if (failure_) throw Error(*failure_);
}

void LaneScheduler::fail(const std::string& failure) {
  {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = failure;
    stopping_ = true;
    cancelled_ = true;
  }
  wake_everybody();
}

void LaneScheduler::throw_failure() {
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
}

bool LaneScheduler::may_start(const Operation& op, std::int64_t step) const {
  const auto is_done = [&](std::int32_t operation, std::int64_t of_step) {
    return done_until_[static_cast<std::size_t>(operation)] > of_step;
  };
  const auto done_now = [&](std::int32_t operation) { return is_done(operation, step); };
  const auto done_before = [&](std::int32_t operation) { return is_done(operation, step - 1); };
  return std::all_of(op.waits.begin(), op.waits.end(), done_now) &&
         (step == first_step_ ||
          std::all_of(op.previous_waits.begin(), op.previous_waits.end(), done_before));
}

void LaneScheduler::run_operation(std::int32_t operation, std::int64_t step) {
  const Operation& op = program_.operations[static_cast<std::size_t>(operation)];
  {
    std::unique_lock lock(mutex_);
    lane_changed_[static_cast<std::size_t>(op.lane)].wait(
        lock, [&] { return stopping_ || may_start(op, step); });
    if (stopping_) return;
  }
  try {
    callbacks_.started(operation, step);
    const Seconds start = steady_seconds();
    callbacks_.run(operation, step);
    callbacks_.done(operation, step, start, steady_seconds());
  } catch (const std::exception& error) {
    fail(error.what());
    return;
  }
  mark_done(operation, step);
}

void LaneScheduler::mark_done(std::int32_t operation, std::int64_t step) {
  const auto index = static_cast<std::size_t>(operation);
  {
    const std::lock_guard lock(mutex_);
    done_until_[index] = step + 1;
  }
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
    if (waiting_lanes_[index][lane]) lane_changed_[lane].notify_one();
  }
}

void LaneScheduler::wake_everybody() {
  for (std::condition_variable& changed : lane_changed_) changed.notify_one();
  step_changed_.notify_all();
}

void LaneScheduler::run_lane(std::size_t lane) {
  for (std::int64_t step = first_step_;; ++step) {
    {
      std::unique_lock lock(mutex_);
      lane_changed_[lane].wait(lock, [&] { return stopping_ || released_until_ > step; });
      if (stopping_) return;
    }
    for (const std::int32_t operation : lane_operations_[lane]) {
      run_operation(operation, step);
    }
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
      lane_done_until_[lane] = step + 1;
    }
    step_changed_.notify_all();
  }
}

}  // namespace athanor
