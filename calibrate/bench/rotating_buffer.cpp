// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bench/rotating_buffer.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/quantities.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor {

RotatingBuffer::RotatingBuffer(std::int64_t length, std::int64_t alignment, std::int64_t start)
    : length_(length), alignment_(alignment), offset_(start) {}

std::int64_t RotatingBuffer::next(std::int64_t size) {
  if (size > length_) throw Error(fmt::format("a slice of {} in a buffer of {}", size, length_));
  if (offset_ + size > length_) offset_ = 0;
  return std::exchange(offset_, offset_ + round_up(size, alignment_));
}

}  // namespace athanor
