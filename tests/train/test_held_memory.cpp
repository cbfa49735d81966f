// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/held_memory.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

const std::vector<RankMemory> kTwoRuns{
    {.path = "/dev/shm/athanor-a1-0", .run = "a1", .rank = 0, .bytes = 3 * kGiB},
    {.path = "/dev/shm/athanor-a1-1", .run = "a1", .rank = 1, .bytes = 3 * kGiB},
    {.path = "/dev/shm/athanor-b2-0", .run = "b2", .rank = 0, .bytes = 1 * kGiB},
};

TEST_CASE("memory that nobody holds is no remark") {
  CHECK(remark_on_held_memory({}, 100 * kGiB, 10 * kGiB).empty());
}

TEST_CASE("a run that fits beside the memory of others is told of it") {
  CHECK_THAT(remark_on_held_memory(kTwoRuns, 13 * kGiB, 20 * kGiB),
             ContainsSubstring("7.00 GiB") && ContainsSubstring("2 other runs") &&
                 ContainsSubstring("athanor clean"));
  CHECK_THAT(remark_on_held_memory({kTwoRuns.back()}, 13 * kGiB, 20 * kGiB),
             ContainsSubstring("another run, b2"));
}

TEST_CASE("a run that does not fit beside the memory of others is refused") {
  CHECK_THROWS_MATCHES(remark_on_held_memory(kTwoRuns, 13 * kGiB + 1, 20 * kGiB), InputError,
                       MessageMatches(ContainsSubstring("needs 13.0 GiB of the 20.0 GiB") &&
                                      ContainsSubstring("athanor clean")));
}

}  // namespace
}  // namespace athanor
