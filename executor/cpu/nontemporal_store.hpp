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

/// Bytes that one call of stream_line() writes.
inline constexpr int kStreamedLine = 64;

/// Writes kStreamedLine bytes: a cache line where `to` is aligned so. `from` is 16-byte aligned.
/// Other threads may read them once this one has called finish_streams().
inline __attribute__((always_inline)) void stream_line(void* to, const void* from) noexcept {
#ifdef __SSE2__
  if (reinterpret_cast<std::uintptr_t>(to) % sizeof(__m128i) == 0) {
    constexpr int kVectors = kStreamedLine / sizeof(__m128i);
    for (int i = 0; i < kVectors; ++i) {
      _mm_stream_si128(static_cast<__m128i*>(to) + i,
                       _mm_load_si128(static_cast<const __m128i*>(from) + i));
    }
    return;
  }
#endif
  std::memcpy(to, from, kStreamedLine);
}

/// Waits until all lines that this thread has streamed are written.
inline void finish_streams() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace athanor
