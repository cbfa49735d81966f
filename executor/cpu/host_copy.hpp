// SPDX-License-Identifier: Apache-2.0
// Copies of host memory. The first is the CPU backend's copy between host and device, too, which
// are both host memory.
#pragma once

#include "sim/base/quantities.hpp"

namespace athanor {

/// Copies `bytes` from `from` to `to` with the calling thread; the two must not overlap. Both
/// pointers may be null when `bytes` is 0.
void host_copy(void* to, const void* from, Bytes bytes) noexcept;

/// Copies, or clears, with `threads` threads.
void host_copy(void* to, const void* from, Bytes bytes, int threads);
void host_clear(void* memory, Bytes bytes, int threads);

}  // namespace athanor
