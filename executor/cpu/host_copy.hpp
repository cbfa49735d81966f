// SPDX-License-Identifier: Apache-2.0
// The CPU backend's copy between host and device, which are both host memory.
#pragma once

#include "sim/base/quantities.hpp"

namespace athanor {

/// Copies `bytes` from `from` to `to` with the calling thread; the two must not overlap. Both
/// pointers may be null when `bytes` is 0.
void host_copy(void* to, const void* from, Bytes bytes) noexcept;

}  // namespace athanor
