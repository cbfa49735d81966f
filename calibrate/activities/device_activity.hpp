// SPDX-License-Identifier: Apache-2.0
// Activities that say themselves how long each repetition took: a GPU's time is on the GPU's clock.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/samples.hpp"

#include <functional>
#include <memory>
#include <vector>

namespace athanor {

/// Takes the time of one repetition; returns whether to go on.
using SampleSink = std::function<bool(Seconds)>;

/// Something that can be repeated back to back; owns its buffers.
class DeviceActivity {
 public:
  virtual ~DeviceActivity() = default;
  /// Repeats until `sink` returns false and all work has ended. Short repetitions are timed in
  /// batches, of which `sink` gets the mean. Called by one thread at a time.
  virtual void run(const SampleSink& sink) = 0;
};
using ActivityPtr = std::unique_ptr<DeviceActivity>;

/// Repeats a function on the calling thread, timed by the host's clock.
[[nodiscard]] ActivityPtr host_device_activity(Activity activity);

/// Repeats for `warm_up` seconds, then until `rule` is satisfied.
[[nodiscard]] Samples measure_sustained(DeviceActivity& activity, Seconds warm_up,
                                        const StoppingRule& rule);

/// Repeats every activity on a thread of its own. Samples are kept from `warm_up` on for `window`
/// seconds, in which all of them run. An activity longer than the window gives one sample.
[[nodiscard]] std::vector<Samples> measure_together(const std::vector<DeviceActivity*>& activities,
                                                    Seconds warm_up, Seconds window);

}  // namespace athanor
