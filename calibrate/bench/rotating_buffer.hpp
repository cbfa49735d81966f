// SPDX-License-Identifier: Apache-2.0
// The place in a large buffer that each repetition of a measurement works on.
#pragma once

#include <cstdint>

namespace athanor {

/// Offsets of slices of a buffer of `length` elements, one after the other and then again from the
/// start. A training step goes from chunk to chunk in the same way. A slice that were used again
/// and again would stay in the caches.
class RotatingBuffer {
 public:
  /// Begins at `start`. Offsets are multiples of `alignment` if `start` is.
  RotatingBuffer(std::int64_t length, std::int64_t alignment, std::int64_t start = 0);
  /// Returns the offset of the next slice of `size` elements. Throws Error if the buffer is
  /// smaller.
  [[nodiscard]] std::int64_t next(std::int64_t size);
  [[nodiscard]] std::int64_t length() const noexcept { return length_; }

 private:
  std::int64_t length_, alignment_, offset_;
};

}  // namespace athanor
