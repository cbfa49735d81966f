// SPDX-License-Identifier: Apache-2.0
// Lanes run a program, step after step. An interface: threads on the host, streams on CUDA.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace athanor {

/// Functions that run operations and observe them. Times are those of steady_seconds().
struct LaneCallbacks {
  /// Called before a lane's first operation on the lane's own thread, if it has one. May be empty;
  /// must not throw.
  std::function<void(Lane lane)> entered = nullptr;
  /// Runs an operation, or puts it on its lane's stream. Throwing stops every lane.
  std::function<void(std::int32_t operation, std::int64_t step)> run;
  /// Called when the operation's waits are over and its lane has reached it.
  std::function<void(std::int32_t operation, std::int64_t step)> started;
  /// Called by the issuing thread, before `done`, when the host has put the operation on its lane's
  /// stream between `start` and `end`. May be empty. Never called where running is issuing.
  std::function<void(std::int32_t operation, std::int64_t step, Seconds start, Seconds end)>
      issued = nullptr;
  /// Called when the operation is done, before wait_for_step() of its step returns. Never called
  /// for two operations of one lane at once.
  std::function<void(std::int32_t operation, std::int64_t step, Seconds start, Seconds end)> done;
};

/// A rank's lanes. In program order within its lane, an operation starts when its `waits` in the
/// same step and its `previous_waits` in the step before are done. A step starts when it is
/// released; a step boundary is no barrier.
class Lanes {
 public:
  /// Cancels what still runs and waits for the lanes to end.
  virtual ~Lanes() = default;

  /// Allows the lanes to run every step below `end`.
  virtual void release_until(std::int64_t end) = 0;
  /// Returns when every lane has finished `step`. Throws Error with the first failure of a lane.
  virtual void wait_for_step(std::int64_t step) = 0;
  /// Stops the lanes with this failure, as if one of them had thrown it.
  virtual void fail(const std::string& failure) = 0;
  /// Throws Error with the first failure, if there was one.
  virtual void throw_failure() = 0;
};

}  // namespace athanor
