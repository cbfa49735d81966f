// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/host_updates.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>

namespace athanor {

TEST_CASE("parts of the memory for host updates hold as much as their share of it") {
  constexpr int kParts = 3;
  constexpr std::int64_t kPart = 4096;
  const HostUpdates updates(kParts * kPart);
  for (int index = 0; index < kParts; ++index) {
    const HostUpdates part = updates.part(index, kParts);
    CHECK_NOTHROW(part.adam(kPart, 1)());
    CHECK_NOTHROW(part.adam_beside(kPart / 2, 1)());
    CHECK_NOTHROW(part.square_sum(kPart)());
    CHECK_THROWS_AS(part.adam(kPart + 1, 1)(), Error);
  }
  CHECK_NOTHROW(updates.adam(kParts * kPart, 1)());
}

}  // namespace athanor
