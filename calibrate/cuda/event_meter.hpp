// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "calibrate/profile/unit_meter.hpp"

#include <memory>

namespace athanor {

/// Times by CUDA events on one stream, memory from LibTorch's caching allocator.
///
/// Each phase waits behind a gate until the host has launched all of it, so that device time has no
/// gaps in which the device waits for the host; what launching takes is a figure of its own.
[[nodiscard]] std::unique_ptr<UnitMeter> make_event_meter(int device);

}  // namespace athanor
