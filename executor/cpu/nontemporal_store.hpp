// SPDX-License-Identifier: Apache-2.0
// Stores past the caches. A normal store first reads the line that it writes, which costs as much
// memory time as reading an operand. Data that is not read again soon can skip that.
#pragma once

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace athanor {

/// Writes 16 floats: a cache line where `to` is aligned so. `from` is 16-byte aligned. Other
/// threads may read them once this one has called finish_streams().
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

/// Waits until all lines that this thread has streamed are written.
inline void finish_streams() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace athanor
