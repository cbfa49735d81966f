// SPDX-License-Identifier: Apache-2.0
// Work of the compute lane that is recorded once and then issued as a whole.
#pragma once

#include "sim/base/quantities.hpp"

#include <functional>
#include <memory>

namespace athanor {

/// Work that was recorded (on a GPU: a CUDA graph). It reads and writes the memory that it had when
/// it was recorded.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  /// Puts the work on the compute lane.
  virtual void issue() = 0;
  /// Returns the device memory that it takes itself, beside that of its tensors. The driver gives
  /// it in pieces, so that one recording may show nothing and another the memory of many.
  [[nodiscard]] virtual Bytes bytes() const = 0;
};

/// Records what a device's compute lane does. Tensors of all recorded work lie in one pool, as
/// those of eager work do: memory that was freed while one piece was recorded may serve the next.
/// Pieces therefore have to be issued in the order in which they were recorded.
class WorkRecorder {
 public:
  virtual ~WorkRecorder() = default;
  /// Runs `work` at once, with tensors in the pool, so that the pool is as large as it needs to be
  /// and libraries have made their plans before anything is recorded. Also for work between two
  /// issues of what was recorded, of which no tensor may outlive the next issue.
  virtual void run(const std::function<void()>& work) = 0;
  /// Records `work` without running it. Throws Error where it does what cannot be recorded, such
  /// as waiting for the device.
  [[nodiscard]] virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& work) = 0;
};

}  // namespace athanor
