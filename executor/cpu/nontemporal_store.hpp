// SPDX-License-Identifier: Apache-2.0
// Stores past the caches: what is not read again soon is written without being read first, which
// would take as much of the memory's time as reading what it is made of.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace athanor {

/// Writes 16 floats, a cache line where `to` is aligned so. `from`: 16-byte aligned. Other threads
/// may read them once this one has called finish_streams().
inline __attribute__((always_inline)) void stream_line(float* to, const float* from) noexcept {
  constexpr int kElements = 16;
#ifdef __SSE2__
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128) == 0) {
    for (int i = 0; i < kElements; i += 4) _mm_stream_ps(to + i, _mm_load_ps(from + i));
    return;
  }
#endif
  std::memcpy(to, from, kElements * sizeof(float));
}

/// Once for any number of lines: waits until all are written.
inline void finish_streams() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace athanor
