// SPDX-License-Identifier: Apache-2.0
// Where in a buffer that is larger than the caches each repetition of a measurement works.
#pragma once

#include <cstdint>

namespace athanor {

/// Offsets of windows of `length` elements, one after the other and then again from the start, as a
/// step goes from chunk to chunk: what is used again and again stays in the caches.
class RotatingBuffer {
 public:
  /// Offsets are multiples of `alignment` if `start`, the first one, is.
  RotatingBuffer(std::int64_t length, std::int64_t alignment, std::int64_t start = 0);
  /// Of a window of `size` elements. Throws Error where the buffer has fewer.
  [[nodiscard]] std::int64_t next(std::int64_t size);
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }

 private:
  std::int64_t length_, alignment_, offset_;
};

}  // namespace athanor
