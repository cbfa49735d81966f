// SPDX-License-Identifier: Apache-2.0
#include "executor/lanes/host_copy.hpp"

#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace athanor {

void host_copy(void* to, const void* from, Bytes bytes) noexcept {
  if (bytes > 0) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

void stream_copy(void* to, const void* from, Bytes bytes) noexcept {
#ifdef __SSE2__
  constexpr std::uintptr_t kWidth = sizeof(__m128i);
  const auto size = static_cast<std::size_t>(bytes);
  if (reinterpret_cast<std::uintptr_t>(to) % kWidth == 0) {
    auto* const target = static_cast<__m128i*>(to);
    const auto* const source = static_cast<const __m128i*>(from);
    const std::size_t vectors = size / kWidth;
    for (std::size_t i = 0; i < vectors; ++i) {
      _mm_stream_si128(target + i, _mm_loadu_si128(source + i));
    }
    return host_copy(target + vectors, source + vectors,
                     static_cast<Bytes>(size - vectors * kWidth));
  }
#endif
  host_copy(to, from, bytes);
}

void finish_streams() noexcept {
#ifdef __SSE2__
  _mm_sfence();
#endif
}

}  // namespace athanor
