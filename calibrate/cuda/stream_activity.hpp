// SPDX-License-Identifier: Apache-2.0
// Activities on one CUDA stream, repeated back to back and timed by events.
#pragma once

#include "calibrate/activities/device_activity.hpp"

#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>

namespace athanor {

/// Pair of events around a batch of repetitions.
class TimedBatch {
 public:
  explicit TimedBatch(int repetitions) : repetitions_(repetitions) {}
  void begin(const c10::cuda::CUDAStream& stream) { start_.record(stream); }
  void end(const c10::cuda::CUDAStream& stream) { end_.record(stream); }
  /// Waits for the end, asleep, so that activities of the host keep their cores. Returns the
  /// seconds of one repetition.
  [[nodiscard]] Seconds wait() const;

 private:
  int repetitions_;
  c10::cuda::CUDAEvent start_{kTimed}, end_{kTimed};
  static constexpr unsigned kTimed = cudaEventBlockingSync;
};

/// Returns the number of repetitions in a batch, if one takes `one` seconds: so many that the
/// host's part of a batch hardly counts.
[[nodiscard]] int batch_size(Seconds one);

/// Keeps a few batches under way, so that the device never waits for the host.
class StreamActivity : public DeviceActivity {
 public:
  explicit StreamActivity(int device);
  void run(const SampleSink& sink) final;

 protected:
  /// Launches one repetition on the current stream of the current device.
  virtual void enqueue() = 0;

 private:
  void launch(int repetitions);

  c10::cuda::CUDAStream stream_;
  std::deque<TimedBatch> under_way_;
};

}  // namespace athanor
