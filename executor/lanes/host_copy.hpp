// SPDX-License-Identifier: Apache-2.0
// Copies within host memory: between host and device of the CPU backend, and past the caches.
#pragma once

#include "sim/model/quantities.hpp"

namespace athanor {

/// Copies `bytes` from `from` to `to` with the calling thread; the two must not overlap. Both
/// pointers may be null when `bytes` is 0.
void host_copy(void* to, const void* from, Bytes bytes) noexcept;

/// The same, where `to` is not read again soon: it is written without being read into the caches
/// first, which would take as much of the memory's time as reading `from`. Other threads may read
/// it once this one has called finish_streams().
void stream_copy(void* to, const void* from, Bytes bytes) noexcept;
/// Once for any number of stream_copy(): it waits until all are written.
void finish_streams() noexcept;

}  // namespace athanor
