// SPDX-License-Identifier: Apache-2.0
// Runs a program's lanes, step after step. A seam: threads on the host, streams on CUDA.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace athanor {

/// What runs the operations and is told about them. Times are those of steady_seconds().
struct LaneCallbacks {
  /// Called on the lane's own thread, where the backend gives it one, before its first operation;
  /// may be empty, must not throw.
  std::function<void(Lane lane)> entered = nullptr;
  /// Does an operation, or puts it on its lane's stream. Throwing stops every lane.
  std::function<void(std::int32_t operation, std::int64_t step)> run;
  /// The operation's waits are over and its lane has turned to it.
  std::function<void(std::int32_t operation, std::int64_t step)> started;
  /// The host has put it on its lane's stream, in that time. Called by the issuing thread before
  /// `done`; may be empty, and never called where running is issuing.
  std::function<void(std::int32_t operation, std::int64_t step, Seconds start, Seconds end)>
      issued = nullptr;
  /// It is done. Called before wait_for_step() of its step returns; never at the same time for two
  /// operations of one lane.
  std::function<void(std::int32_t operation, std::int64_t step, Seconds start, Seconds end)> done;
};

/// An operation starts when its `waits` of the same step and its `previous_waits` of the step
/// before are done, in program order within its lane. A step starts when it is released; its
/// boundary is no barrier.
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

/// The host's clock that timelines refer to; for differences alone.
[[nodiscard]] Seconds steady_seconds() noexcept;

}  // namespace athanor
