// SPDX-License-Identifier: Apache-2.0
// Tests of the engine's parts that need no SimGrid.
#include "sim/base/errors.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/shared_rates.hpp"
#include "sim/engine/clock_frame.hpp"
#include "sim/engine/steady_state.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;
using test::plain_platform;
using test::share;
using Scope = SharedResource::Scope;

TEST_CASE("adding to sums on the host costs reading and writing them unless it was measured") {
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

TEST_CASE("Adam on gradients that were summed in fp32 moves 28 bytes an element instead of 26") {
  Platform platform = plain_platform();
  platform.cpu_adam[1] = platform.device_adam = {{{0, 0, 0}, {28e6, 28, 0}}};
  Operation op;
  op.kind = OpKind::Adam;
  op.elements = 13'000'000;
  Program program;
  program.dtype = DataType::BFloat16;
  for (const Lane lane : {Lane::Compute, Lane::CpuAdam}) {
    op.lane = lane;
    program.gradient_dtype = DataType::BFloat16;
    CHECK_THAT(solo_seconds(op, program, platform), WithinRel(13, 1e-12));
    program.gradient_dtype = DataType::Float32;
    CHECK_THAT(solo_seconds(op, program, platform), WithinRel(14, 1e-12));
  }
}

TEST_CASE("Adam with moments in bf16 moves 18 bytes an element instead of 26, in int8 14") {
  Platform platform = plain_platform();
  platform.cpu_adam[1] = platform.device_adam = {{{0, 0, 0}, {26e6, 26, 0}}};
  Operation op;
  op.kind = OpKind::Adam;
  op.elements = 13'000'000;
  Program program;
  program.dtype = program.gradient_dtype = DataType::BFloat16;
  for (const Lane lane : {Lane::Compute, Lane::CpuAdam}) {
    op.lane = lane;
    program.adam_state = AdamState::BFloat16;
    CHECK_THAT(solo_seconds(op, program, platform), WithinRel(9, 1e-12));
    program.adam_state = AdamState::Int8;  // and two scales for 256 elements, read and written
    CHECK_THAT(solo_seconds(op, program, platform), WithinRel(7 + 0.5 / 16, 1e-12));
  }
}

TEST_CASE(
    "an update that keeps the old state takes as long as one in place unless it was measured") {
  Platform platform = plain_platform();
  platform.cpu_adam = {{1, {{{1000, 4, 0}}}}, {2, {{{1000, 3, 0}}}}};
  Operation ahead;
  ahead.kind = OpKind::Adam;
  ahead.lane = Lane::CpuAdam;
  ahead.elements = 1000;
  ahead.beside = true;
  Operation in_place = ahead;
  in_place.beside = false;
  Operation rollback = ahead;
  rollback.kind = OpKind::AdamRollback;
  Program program;
  program.cpu_adam_threads = 2;
  program.clipped_share = 0.5;
  CHECK(solo_seconds(ahead, program, platform) == 3);
  platform.cpu_adam_beside = {{1, {{{1000, 7, 0}}}}, {2, {{{1000, 5, 0}}}}};
  CHECK(solo_seconds(in_place, program, platform) == 3);
  CHECK(solo_seconds(ahead, program, platform) == 5);
  CHECK(solo_seconds(rollback, program, platform) == 2.5);
}

StepEnd step_end(int step, Seconds time, std::int64_t place = 1, Seconds until = 0) {
  return {step, time, {place}, {until}, 0, 0, {}};
}

TEST_CASE("a program is steady when a step ends in the state in which the one before did") {
  SteadyState state(1, 1e-9);
  CHECK_FALSE(state.add(step_end(0, 10, 3, 0.5)));
  CHECK_FALSE(state.add(step_end(1, 20, 3, 0.25)));  // the running operation is further on
  CHECK_FALSE(state.add(step_end(2, 30, 2, 0.25)));  // the lane is at another operation
  StepEnd end = step_end(3, 40, 2, 0.25);
  end.issued_until = 1;  // the host is behind as it was not before
  end.issue_waits = 1;
  CHECK_FALSE(state.add(end));
  end.step = 4;
  end.time = 51;
  end.issued_until = 2;
  CHECK_FALSE(state.add(end));
  end.step = 5;
  end.time = 63;
  end.until[0] += 1e-9;
  CHECK(state.add(end));
  CHECK(state.period().seconds == 12);
  CHECK(state.period().first == 4);
  CHECK(state.period().last == 5);
}

TEST_CASE("energy that devices may still take is part of the state") {
  SteadyState state(1, 1e-9);
  StepEnd end = step_end(0, 1);
  end.budgets = {{0.5, 1}};
  CHECK_FALSE(state.add(end));
  end = step_end(1, 2);
  end.budgets = {{0.6, 2}};  // the budget was empty in between
  CHECK_FALSE(state.add(end));
  end = step_end(2, 4);
  end.budgets = {{0.4, 2}};  // the budget will be empty
  CHECK_FALSE(state.add(end));
  end.step = 3;
  end.time = 6;
  CHECK(state.add(end));
  CHECK(state.period().seconds == 2);
}

TEST_CASE("a budget that grows and was never empty does not keep a program from being steady") {
  SteadyState state(1, 1e-9);
  StepEnd end = step_end(0, 1);
  end.budgets = {{0.5, 7}, {1, 0}};
  CHECK_FALSE(state.add(end));
  end.step = 1;
  end.time = 3;
  end.budgets[0].level = 0.6;
  CHECK(state.add(end));
}

TEST_CASE(
    "a host that is less behind and was never waited for does not keep a program from being "
    "steady") {
  for (const std::int64_t waits : {0, 1}) {
    SteadyState state(1, 1e-9);
    StepEnd end = step_end(0, 1);
    end.issued_until = 0.5;
    CHECK_FALSE(state.add(end));
    end.step = 1;
    end.time = 3;
    end.issued_until = 0.25;
    end.issue_waits = waits;
    CHECK(state.add(end) == (waits == 0));
  }
}

TEST_CASE("alternating steps repeat after two, and cycles of five steps are not found") {
  SteadyState state(1, 1e-9);
  CHECK_FALSE(state.add(step_end(0, 1, 1)));
  CHECK_FALSE(state.add(step_end(1, 5, 2)));
  CHECK(state.add(step_end(2, 6, 1)));
  CHECK(state.period().seconds == 2.5);
  SteadyState late(1, 1e-9);
  CHECK_FALSE(late.add(step_end(0, 1)));
  CHECK_FALSE(late.add(step_end(5, 6)));
}

TEST_CASE("without a steady state the period is the mean of the slowest lane") {
  SteadyState state(3, 1e-9);  // nothing runs on the third
  CHECK(state.period().seconds == 0);
  CHECK(state.period().last == -1);
  const std::vector<Seconds> first{9, 10, 12, 15, 19, 21}, second{1, 6, 9, 14, 17.5, 22.5};
  for (std::size_t step = 0; step < first.size(); ++step) {
    state.lane_ended(0, first[step]);
    if (step == 1) CHECK(state.period().seconds == 9);  // the second lane is a step behind
    state.lane_ended(1, second[step]);
    if (step == 0) CHECK(state.period().seconds == 9);
    if (step == 1) CHECK(state.period().seconds == 5);
  }
  CHECK(state.period().seconds == (22.5 - 6) / 4);
  CHECK(state.period().first == 1);
  CHECK(state.period().last == 5);
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

TEST_CASE("a late clock resolves a very short horizon") {
  const Seconds horizon = 1e-12, duration = horizon / 3;
  const ClockFrame frame = next_clock_frame(0x1p999, horizon);
  CHECK_THAT(frame.to_seconds(frame.origin + frame.to_clock(duration)), WithinRel(duration, 1e-6));
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
