// SPDX-License-Identifier: Apache-2.0
// The engine's parts that need no SimGrid.
#include "sim/engine/clock_frame.hpp"
#include "sim/engine/shared_rates.hpp"
#include "sim/engine/steady_state.hpp"
#include "sim/model/costs.hpp"
#include "sim/model/errors.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <optional>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using test::plain_platform;
using test::share;
using Scope = SharedResource::Scope;

TEST_CASE("adding to sums on the host is reading and writing them unless it was measured") {
  Platform platform = plain_platform();
  platform.h2d = {{{1000, 3, 0}}};
  platform.d2h = {{{1000, 4, 0}}};
  Operation op;
  op.kind = OpKind::GradD2H;
  op.lane = Lane::D2H;
  op.bytes = 1000;
  CHECK(solo_seconds(op, {}, platform) == 4);
  op.accumulate = true;
  CHECK(solo_seconds(op, {}, platform) == 7);
  platform.d2h_add = {{{1000, 5, 0}}};
  CHECK(solo_seconds(op, {}, platform) == 5);
}

TEST_CASE(
    "Adam on gradients that were added up in fp32 moves 30 bytes an element where it moved 28") {
  Platform platform = plain_platform();
  platform.cpu_adam[1] = platform.device_adam = {{{0, 0, 0}, {28e6, 28, 0}}};
  Operation op;
  op.kind = OpKind::Adam;
  op.elements = 14'000'000;
  Program program;
  program.dtype = DataType::BFloat16;
  for (const Lane lane : {Lane::Compute, Lane::CpuAdam}) {
    op.lane = lane;
    program.gradient_dtype = DataType::BFloat16;
    CHECK_THAT(solo_seconds(op, program, platform), WithinRel(14, 1e-12));
    program.gradient_dtype = DataType::Float32;
    CHECK_THAT(solo_seconds(op, program, platform), WithinRel(15, 1e-12));
  }
}

bool add(SteadyState& state, int step, std::initializer_list<Seconds> ends) {
  std::copy(ends.begin(), ends.end(), state.ends(step).begin());
  state.open(step + 1);
  return state.add(step, 0);
}

TEST_CASE("a program is steady when all operations repeat, not when the last one does") {
  SteadyState state(2, 1e-9);
  CHECK_FALSE(add(state, 0, {1.0, 10}));
  CHECK_FALSE(add(state, 1, {2.5, 11}));
  CHECK_FALSE(add(state, 2, {4.0, 12}));  // the first operation is slower and will catch up
  CHECK_FALSE(add(state, 3, {12.5, 13}));
  CHECK_FALSE(add(state, 4, {14.0, 14.625}));
  CHECK(add(state, 5, {15.5, 16.125}));
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

TEST_CASE("a step that ends as the one before is not steady while the step after differs") {
  SteadyState state(1, 1e-9);
  const auto step = [&](int number, Seconds start, Seconds end, std::optional<Seconds> next_start,
                        Seconds issued_until) {
    state.starts(number)[0] = start;
    state.ends(number)[0] = end;
    state.open(number + 1);
    if (next_start) state.starts(number + 1)[0] = *next_start;
    return state.add(number, issued_until);
  };
  CHECK_FALSE(step(0, 0, 10, 9.5, 0));
  CHECK_FALSE(step(1, 9.5, 20, 19, 0));
  CHECK_FALSE(step(2, 19, 30, 29.5, 0));            // the next began later
  CHECK_FALSE(step(3, 29.5, 40, std::nullopt, 0));  // the next has not begun
  CHECK_FALSE(step(4, 40, 50, 50.0, 51));           // the host is behind as it was not before
  CHECK_FALSE(step(5, 50, 60, 59.5, 61));
  CHECK_FALSE(step(6, 59.5, 70, 69.5, 71.5));
  CHECK(step(7, 69.5, 80, 79.5, 81.5));
  CHECK(state.period() == 10);
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
