// SPDX-License-Identifier: Apache-2.0
// Times and memory of a unit's phases on a GPU.
#pragma once

#include "calibrate/profile/unit_meter.hpp"

#include <memory>

namespace athanor {

/// Returns a meter that times by CUDA events on one stream and takes memory from LibTorch's caching
/// allocator.
///
/// Each phase waits behind a stream gate until the host has launched all of it. So device time has
/// no gaps in which the device waits for the host. The time to launch a phase is measured apart.
[[nodiscard]] std::unique_ptr<UnitMeter> make_event_meter(int device);

}  // namespace athanor
