// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bench/rotating_buffer.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstdint>
#include <vector>

namespace athanor {
namespace {

std::vector<std::int64_t> offsets(RotatingBuffer buffer, std::int64_t size, int count) {
  std::vector<std::int64_t> offsets;
  for (int i = 0; i < count; ++i) offsets.push_back(buffer.next(size));
  return offsets;
}

}  // namespace

TEST_CASE("slices go through a buffer from where they start, and then from its start") {
  CHECK(offsets({100, 1}, 25, 6) == std::vector<std::int64_t>{0, 25, 50, 75, 0, 25});
  CHECK(offsets({100, 1, 50}, 25, 4) == std::vector<std::int64_t>{50, 75, 0, 25});
  CHECK(offsets({100, 1, 50}, 60, 2) == std::vector<std::int64_t>{0, 0});
  CHECK(offsets({100, 1}, 100, 2) == std::vector<std::int64_t>{0, 0});
}

TEST_CASE("slices begin at multiples of their alignment and end in the buffer") {
  CHECK(offsets({100, 32}, 30, 5) == std::vector<std::int64_t>{0, 32, 64, 0, 32});
  CHECK(offsets({100, 32}, 37, 3) == std::vector<std::int64_t>{0, 0, 0});
}

TEST_CASE("slices of several sizes follow each other") {
  RotatingBuffer buffer{100, 8};
  CHECK(buffer.next(20) == 0);
  CHECK(buffer.next(60) == 24);
  CHECK(buffer.next(12) == 88);
  CHECK(buffer.next(4) == 0);
}

TEST_CASE("a slice larger than its buffer is refused") {
  RotatingBuffer buffer{100, 8};
  CHECK_THROWS_AS(buffer.next(101), Error);
  CHECK(buffer.next(100) == 0);
}

}  // namespace athanor
