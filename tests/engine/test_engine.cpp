// SPDX-License-Identifier: Apache-2.0
// Tests of the engine against closed forms.
#include "sim/base/errors.hpp"
#include "sim/bounds/bounds.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/simulation_options.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <utility>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;
using test::find;
using test::plain_platform;
using test::ProgramBuilder;

/// Amount that a copy, a gather or CPU Adam does in one second on plain_platform.
constexpr Bytes kSecond = 1'000'000'000;

auto is(Seconds expected) { return WithinRel(expected, 1e-9); }

TEST_CASE("a chain takes the sum of its operations") {
  ProgramBuilder chain;
  const auto fetch = chain.copy_in(kSecond);
  const auto gather = chain.gather(kSecond / 2, {fetch});
  const auto compute = chain.compute(2, {gather});
  const auto out = chain.copy_out(kSecond / 4, {compute});
  const auto adam = chain.adam(kSecond, {out});
  chain.after_previous(fetch, adam);
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(chain.program());
  CHECK(timeline.predicted);
  CHECK_THAT(timeline.step_seconds, is(4.75));
  CHECK(find(timeline, fetch).start == 0);
  CHECK_THAT(find(timeline, compute).start, is(1.5));
  CHECK_THAT(find(timeline, adam).end, is(4.75));
  CHECK_THAT(find(timeline, adam, 1).end, is(9.5));
}

TEST_CASE("a copy and a computation overlap: the longer one counts") {
  ProgramBuilder builder;
  const auto fetch = builder.copy_in(kSecond);
  builder.compute(2, {fetch});
  Engine engine(plain_platform(), 1);
  CHECK_THAT(engine.simulate(builder.program()).step_seconds, is(2));
}

TEST_CASE("a copy engine serves copies in order, the first one's wait included") {
  ProgramBuilder builder;
  const auto compute = builder.compute(3);
  const auto first = builder.copy_in(kSecond, {compute});
  const auto second = builder.copy_in(kSecond);
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, first).start, is(3));
  CHECK_THAT(find(timeline, second).start, is(4));
  CHECK_THAT(find(timeline, second).end, is(5));
}

TEST_CASE(
    "a ring all-gather takes (n-1) latencies and (n-1)/n of the bytes, on all ranks at once") {
  constexpr int kRanks = 4;
  constexpr double kLatency = 5e-6, kBandwidth = 2e10, kBytes = 64 << 20;
  const auto on_alarm = [&](double bytes) {
    return (kRanks - 1) * kLatency + bytes * (kRanks - 1) / kRanks / kBandwidth;
  };
  Platform platform = plain_platform();
  platform.all_gather = {{kRanks, {{{1, on_alarm(1), 0}, {1e9, on_alarm(1e9), 0}}}}};
  ProgramBuilder builder(kRanks);
  const auto compute = builder.compute(1e-3);
  const auto gather = builder.gather(static_cast<Bytes>(kBytes), {compute});
  builder.after_previous(compute, gather);
  Engine engine(platform, kRanks, RankModel::Each);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(timeline.step_seconds, is(1e-3 + on_alarm(kBytes)));
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK_THAT(find(timeline, gather, 1, rank).end - find(timeline, gather, 1, rank).start,
               is(on_alarm(kBytes)));
  }
}

TEST_CASE("the next step's fetches run under this one: the period is shorter than a step") {
  ProgramBuilder builder;
  const auto fetch_a = builder.copy_in(kSecond);
  const auto fetch_b = builder.copy_in(kSecond);
  const auto compute_a = builder.compute(2, {fetch_a});
  const auto compute_b = builder.compute(2, {fetch_b});
  const auto adam_a = builder.adam(3 * kSecond / 2, {compute_a});
  const auto adam_b = builder.adam(3 * kSecond / 2, {compute_b});
  builder.after_previous(fetch_a, adam_a).after_previous(fetch_b, adam_b);
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, adam_b).end, is(6.5));
  CHECK_THAT(timeline.step_seconds, is(4.5));  // fetch, compute and Adam of one unit form a cycle
}

TEST_CASE("at most two steps are under way") {
  ProgramBuilder builder;
  const auto fetch = builder.copy_in(kSecond);
  const auto slow = builder.adam(5 * kSecond, {fetch});
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, fetch, 1).start, is(1));
  CHECK_THAT(find(timeline, fetch, 2).start, is(6));
  CHECK(find(timeline, fetch, 2).start == find(timeline, slow, 0).end);
  CHECK_THAT(timeline.step_seconds, is(5));
}

/// Expected timeline of one step: three sharded units, everything on the host, recompute.
///   h2d         F0 F1    F2       F1       F0
///   collective     G0 G1    G2       G1    R2 G0    R1       R0
///   compute           f0 f1    f2 b2 ..... b1 ..... b0 .....
///   d2h                                       g2       g1       g0
///   cpu-adam                                     a2 ..    a1 ..    a0 ..
TEST_CASE("an offloaded step has its golden timeline") {
  ProgramBuilder step;
  const auto fetch = [&](const std::vector<std::int32_t>& waits) {
    return step.copy_in(kSecond, waits);
  };
  const auto collective = [&](std::int32_t wait) { return step.gather(kSecond, {wait}); };
  const auto f0 = fetch({}), g0 = collective(f0), forward0 = step.compute(1, {g0});
  const auto f1 = fetch({}), g1 = collective(f1), forward1 = step.compute(1, {g1});
  const auto f2 = fetch({forward0}), g2 = collective(f2), forward2 = step.compute(1, {g2});
  const auto b2 = step.compute(3, {forward2});
  const auto again1 = fetch({forward2}), gather1 = collective(again1);
  const auto r2 = collective(b2);
  const auto b1 = step.compute(3, {gather1});
  const auto again0 = fetch({b2}), gather0 = collective(again0);
  const auto r1 = collective(b1);
  const auto b0 = step.compute(3, {gather0});
  const auto r0 = collective(b0);
  const auto d2 = step.copy_out(kSecond, {r2}), d1 = step.copy_out(kSecond, {r1});
  const auto d0 = step.copy_out(kSecond, {r0});
  const auto a2 = step.adam(2 * kSecond, {d2}), a1 = step.adam(2 * kSecond, {d1});
  const auto a0 = step.adam(2 * kSecond, {d0});
  step.after_previous(f0, a0).after_previous(f1, a1).after_previous(f2, a2);
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(step.program());
  const std::vector<std::pair<std::int32_t, Seconds>> golden{
      {f0, 0},       {f1, 1},       {f2, 3},  {again1, 6},   {again0, 9}, {g0, 1},  {g1, 2},
      {g2, 4},       {gather1, 7},  {r2, 9},  {gather0, 10}, {r1, 12},    {r0, 15}, {forward0, 2},
      {forward1, 3}, {forward2, 5}, {b2, 6},  {b1, 9},       {b0, 12},    {d2, 10}, {d1, 13},
      {d0, 16},      {a2, 11},      {a1, 14}, {a0, 17}};
  for (const auto& [operation, start] : golden) {
    CAPTURE(operation);
    CHECK(find(timeline, operation, 0).start == start);
    CHECK(find(timeline, operation, 1).start == start + 19);
  }
  CHECK(timeline.step_seconds == 19);
}

TEST_CASE("an operation starts when the host has issued it") {
  ProgramBuilder builder;
  const auto first = builder.compute(1e-3);
  const auto second = builder.compute(1e-3);
  builder.issue(first, 2e-3).issue(second, 5e-3);
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, first).start, is(2e-3));
  CHECK_THAT(find(timeline, second).start, is(7e-3));
  CHECK_THAT(find(timeline, first, 1).start, is(9e-3));
  CHECK_THAT(timeline.step_seconds, is(7e-3));
}

TEST_CASE(
    "a host that launches more slowly than the profile's takes longer to issue by that factor") {
  ProgramBuilder builder;
  const auto first = builder.compute(1e-3);
  builder.issue(first, 4e-3);
  Program program = builder.program();
  Platform platform = plain_platform();
  const auto step = [&] { return Engine(platform, 1).simulate(program).step_seconds; };
  program.launch_seconds = 5e-6;
  CHECK_THAT(step(), is(4e-3));  // the platform does not say
  platform.issue[Lane::Compute] = 10e-6;
  CHECK_THAT(step(), is(8e-3 + 10e-6));
  CHECK_THAT(lower_bound_seconds(program, platform), is(8e-3 + 10e-6));
  program.launch_seconds = 0;
  CHECK_THAT(step(), is(4e-3 + 10e-6));
}

TEST_CASE(
    "on a device with a lower matrix rate than the profile's, phases take longer by that factor") {
  ProgramBuilder builder;
  builder.compute(3e-3);
  Program program = builder.program();
  Platform platform = plain_platform();
  const auto step = [&] { return Engine(platform, 1).simulate(program).step_seconds; };
  platform.matmul_flops_per_second = 1e14;
  CHECK_THAT(step(), is(3e-3));  // the profile does not say
  program.matmul_flops_per_second = 1.1e14;
  CHECK_THAT(step(), is(3.3e-3));
  CHECK_THAT(lower_bound_seconds(program, platform), is(3.3e-3));
  platform.matmul_flops_per_second = 0;
  CHECK_THAT(step(), is(3e-3));
}

TEST_CASE("operations that are issued ahead hide their issue time") {
  ProgramBuilder builder;
  const auto first = builder.compute(10e-3);
  const auto second = builder.compute(10e-3);
  builder.issue(first, 2e-3).issue(second, 2e-3);
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, first).start, is(2e-3));
  CHECK_THAT(find(timeline, second).start, is(12e-3));
  CHECK_THAT(timeline.step_seconds, is(20e-3));
}

TEST_CASE("a step is issued when the step two before has ended") {
  // The host takes 1 ms for each operation and is done with two steps after 4 ms. The first step
  // ends after 1 + 10 + 1 ms; only then is the third issued, during the second's 10 ms.
  ProgramBuilder builder;
  const auto only = builder.compute(10e-3);
  const auto last = builder.copy_out(1'000'000, {only});
  builder.issue(only, 1e-3).issue(last, 1e-3);
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, only).start, is(1e-3));
  CHECK_THAT(find(timeline, only, 1).start, is(11e-3));
  CHECK_THAT(find(timeline, only, 2).start, is(21e-3));
  CHECK_THAT(timeline.step_seconds, is(10e-3));
}

TEST_CASE("an option makes lanes faster, and the step with them") {
  ProgramBuilder chain;
  const auto fetch = chain.copy_in(kSecond);
  const auto compute = chain.compute(2, {fetch});
  chain.after_previous(fetch, compute).issue(fetch, 1);
  Engine engine(plain_platform(), 1);
  const auto step_with = [&](const SimulationOptions& options) {
    return engine.simulate(chain.program(), options).step_seconds;
  };
  CHECK_THAT(step_with({}), is(3));
  SimulationOptions options;
  options.lane_speed[static_cast<std::size_t>(Lane::H2D)] = 2;
  CHECK_THAT(step_with(options), is(2.5));
  options.lane_speed[static_cast<std::size_t>(Lane::Compute)] = 4;
  CHECK_THAT(step_with(options), is(1));
  chain.issue(fetch, 8);
  CHECK_THAT(step_with({}), is(8));
  CHECK_THAT(step_with({.issue_speed = 2}), is(4));
}

TEST_CASE(
    "a platform's issue time counts for each operation of its lane, and not for those on the "
    "host") {
  Platform platform = plain_platform();
  platform.issue = {{Lane::H2D, 1e-3}, {Lane::Compute, 4e-3}};
  ProgramBuilder builder;
  const auto adam = builder.adam(1'000'000);
  const auto copy = builder.copy_in(1'000'000);
  const auto compute = builder.compute(1e-3, {copy});
  Engine engine(platform, 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK(find(timeline, adam).start == 0);
  CHECK_THAT(find(timeline, copy).start, is(1e-3));
  CHECK_THAT(find(timeline, compute).start, is(5e-3));
}

TEST_CASE("an empty program takes no time") {
  Engine engine(plain_platform(), 1);
  CHECK(engine.simulate(Program{}).step_seconds == 0);
  ProgramBuilder builder;
  const auto compute = builder.compute(0);
  builder.copy_in(0, {compute});
  CHECK(engine.simulate(builder.program()).step_seconds == 0);
}

TEST_CASE("without intervals the period is equal") {
  ProgramBuilder builder;
  builder.compute(3);
  SimulationOptions options;
  options.record_intervals = false;
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(builder.program(), options);
  CHECK(timeline.intervals.empty());
  CHECK_THAT(timeline.step_seconds, is(3));
}

TEST_CASE("peak memory is the program's own") {
  ProgramBuilder builder;
  builder.compute(1);
  Program program = builder.program();
  program.operations[0].peak_bytes = 1000;
  program.static_buffers = {{"parameters", Tier::Gpu, 24}, {"moments", Tier::Host, 48}};
  Engine engine(plain_platform(), 1);
  const Timeline timeline = engine.simulate(program);
  CHECK(timeline.peak_bytes.gpu == 1024);
  CHECK(timeline.peak_bytes.host == 48);
}

TEST_CASE("the engine refuses programs and platforms that it cannot simulate") {
  Platform platform = plain_platform();
  platform.reduce_scatter.clear();
  Engine engine(platform, 1);
  CHECK_THROWS_AS(Engine(platform, 1), Error);
  CHECK_THROWS_AS(engine.simulate(ProgramBuilder(2).program()), Error);
  ProgramBuilder forward;
  forward.compute(1, {0});
  CHECK_THROWS_AS(engine.simulate(forward.program()), Error);
  ProgramBuilder negative;
  negative.compute(-1);
  CHECK_THROWS_AS(engine.simulate(negative.program()), Error);
  ProgramBuilder no_curve;
  no_curve.copy_in(1);
  Program reduce = no_curve.program();
  reduce.operations[0].kind = OpKind::Reduce;
  CHECK_THROWS_AS(engine.simulate(reduce), InputError);
  ProgramBuilder works;
  works.compute(1);
  CHECK_THAT(engine.simulate(works.program()).step_seconds, is(1));
}

}  // namespace
}  // namespace athanor
