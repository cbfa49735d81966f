// SPDX-License-Identifier: Apache-2.0
// Activities that time their own repetitions, because a GPU's time is on the GPU's clock.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/samples.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace athanor {

/// Takes the time of one repetition. Returns whether to go on.
using SampleSink = std::function<bool(Seconds)>;

/// Work that can be repeated back to back. Owns its buffers.
class DeviceActivity {
 public:
  virtual ~DeviceActivity() = default;
  /// Repeats until `sink` returns false and all work has ended. Short repetitions are timed in
  /// batches; `sink` then gets the mean of a batch. Called by one thread at a time.
  virtual void run(const SampleSink& sink) = 0;
};
using ActivityPtr = std::unique_ptr<DeviceActivity>;

/// Returns an activity that repeats a function on the calling thread, timed by the host's clock.
[[nodiscard]] ActivityPtr host_device_activity(Activity activity);

/// Repeats for `warm_up` seconds, which do not count, then until `rule` is satisfied.
[[nodiscard]] Samples measure_sustained(DeviceActivity& activity, Seconds warm_up,
                                        const StoppingRule& rule);

/// Repeats every activity on a thread of its own. All of them run throughout; samples of the
/// `duration` after `warm_up` are kept. An activity that takes longer than that gives one sample.
/// Rethrows what an activity throws.
[[nodiscard]] std::vector<Samples> measure_together(const std::vector<DeviceActivity*>& activities,
                                                    Seconds warm_up, Seconds duration);

}  // namespace athanor
