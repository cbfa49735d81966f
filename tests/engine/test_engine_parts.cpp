// SPDX-License-Identifier: Apache-2.0
// The engine's parts that need no SimGrid.
#include "sim/engine/clock_frame.hpp"
#include "sim/engine/shared_rates.hpp"
#include "sim/engine/steady_state.hpp"
#include "sim/model/errors.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using test::plain_platform;
using test::share;
using Scope = SharedResource::Scope;

bool add(SteadyState& state, int step, std::initializer_list<Seconds> ends) {
  std::copy(ends.begin(), ends.end(), state.ends(step).begin());
  return state.add(step);
}

TEST_CASE("a program is steady when all operations repeat, not when the last one does") {
  SteadyState state(2, 1e-9);
  CHECK_FALSE(add(state, 0, {1.0, 10}));
  CHECK_FALSE(add(state, 1, {2.5, 11}));
  CHECK_FALSE(add(state, 2, {4.0, 12}));  // the first operation is slower and will catch up
  CHECK_FALSE(add(state, 3, {10.5, 13}));
  CHECK_FALSE(add(state, 4, {12.0, 14.625}));
  CHECK(add(state, 5, {13.5, 16.125}));
  CHECK(state.period() == 1.5);
}

TEST_CASE("steps that take turns repeat after two") {
  SteadyState state(2, 1e-9);
  CHECK_FALSE(add(state, 0, {1, 1}));
  CHECK_FALSE(add(state, 1, {3, 5}));
  CHECK_FALSE(add(state, 2, {6, 6}));
  CHECK_FALSE(add(state, 3, {8, 10}));
  CHECK(add(state, 4, {11, 11}));
  CHECK(state.period() == 2.5);
}

TEST_CASE("without a steady state the slowest operation's mean counts") {
  SteadyState state(2, 1e-9);
  CHECK(state.period() == 0);
  CHECK_FALSE(add(state, 0, {9, 1}));
  CHECK(state.period() == 9);
  CHECK_FALSE(add(state, 1, {10, 6}));
  CHECK(state.period() == 5);
  CHECK_FALSE(add(state, 2, {12, 9}));
  CHECK_FALSE(add(state, 3, {15, 14}));
  CHECK_FALSE(add(state, 4, {19, 17.5}));
  CHECK_FALSE(add(state, 5, {21, 22.5}));
  CHECK(state.period() == (22.5 - 6) / 4);
}

TEST_CASE("every clock frame computes with the same bits") {
  const Seconds horizon = 0.37;
  const Seconds durations[] = {0.1, 1e-7, 0.033333333333};
  double now = 0;
  ClockFrame frame = next_clock_frame(now, horizon);
  double expected[3];
  for (int i = 0; i < 3; ++i) {
    expected[i] = frame.to_seconds(frame.origin + frame.to_clock(durations[i]));
    CHECK_THAT(expected[i], WithinRel(durations[i], horizon / durations[i] * 0x1p-44));
  }
  const int first_exponent = frame.exponent;
  int frames = 0;
  for (; frames < 100'000; ++frames) {
    now = frame.origin + frame.to_clock(horizon);
    frame = next_clock_frame(now, horizon);
    REQUIRE(frame.origin >= now);
    REQUIRE(std::ilogb(frame.origin + frame.to_clock(horizon) * 0.999) == frame.exponent);
    for (int i = 0; i < 3; ++i) {
      REQUIRE(frame.to_seconds(frame.origin + frame.to_clock(durations[i])) == expected[i]);
    }
  }
  CHECK(frame.exponent > first_exponent + 100);
}

TEST_CASE("a clock that is used up is refused") {
  CHECK_THROWS_AS(next_clock_frame(std::ldexp(1.0, 1001), 1), Error);
}

TEST_CASE("resources that cannot be saturated are left out") {
  Platform platform = plain_platform();
  share(platform, Scope::Node, 4, {Lane::H2D, Lane::D2H}, 1);
  CHECK(shared_rates(platform, 2).resources.empty());
  const SharedRates rates = shared_rates(platform, 4);
  REQUIRE(rates.resources.size() == 1);
  CHECK(rates.resources[0].capacity == 1);
  CHECK(rates.worst_slowdown(Lane::H2D) == 2);
  CHECK(rates.worst_slowdown(Lane::Compute) == 1);
}

TEST_CASE("resources keep their own units while lanes use them in one proportion") {
  Platform platform = plain_platform();
  share(platform, Scope::Node, 1e11, {Lane::H2D, Lane::CpuAdam}, 8e10);  // bytes per second
  share(platform, Scope::Node, 3, {Lane::CpuAdam, Lane::Compute}, 2);    // cores
  const SharedRates rates = shared_rates(platform, 1);
  REQUIRE(rates.resources.size() == 2);
  CHECK_THAT(rates.resources[0].capacity, WithinRel(1e11 / 8e10, 1e-12));
  CHECK_THAT(rates.resources[1].capacity, WithinRel(1.5, 1e-12));
  CHECK(rates.rate[static_cast<std::size_t>(Lane::Compute)] == 1);
  platform.shared[1].use[Lane::H2D] = 1;
  CHECK_THROWS_AS(shared_rates(platform, 1), InputError);
  CHECK_THROWS_WITH(shared_rates(platform, 1), ContainsSubstring("resource 1.use."));
}

}  // namespace
}  // namespace athanor
