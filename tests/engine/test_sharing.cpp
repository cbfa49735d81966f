// SPDX-License-Identifier: Apache-2.0
// Tests of lanes that share resources, against closed forms.
#include "sim/base/errors.hpp"
#include "sim/bounds/bounds.hpp"
#include "sim/engine/engine.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <utility>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;
using test::find;
using test::plain_platform;
using test::ProgramBuilder;
using test::share;
using Scope = SharedResource::Scope;

/// Amount that a copy or CPU Adam does in one second on plain_platform.
constexpr Bytes kSecond = 1'000'000'000;

auto is(Seconds expected) { return WithinRel(expected, 1e-9); }

TEST_CASE("two ranks that share a link get half of it each") {
  Platform platform = plain_platform();
  share(platform, Scope::Node, 1, {Lane::H2D}, 1);
  ProgramBuilder builder(2);
  const auto fetch = builder.copy_in(kSecond);
  for (const RankModel model : {RankModel::Folded, RankModel::Each}) {
    Engine engine(platform, 2, model);
    const Timeline timeline = engine.simulate(builder.program());
    CHECK_THAT(timeline.step_seconds, is(2));
    for (const int rank : {0, 1}) CHECK_THAT(find(timeline, fetch, 0, rank).end, is(2));
  }
}

TEST_CASE("a device's own resource is not shared between ranks") {
  Platform platform = plain_platform();
  share(platform, Scope::Device, 1.5, {Lane::H2D, Lane::D2H}, 1);
  ProgramBuilder builder(2);
  builder.copy_in(kSecond);
  builder.copy_out(kSecond);
  Engine engine(platform, 2, RankModel::Each);
  CHECK_THAT(engine.simulate(builder.program()).step_seconds, is(1 / 0.75));
}

TEST_CASE("two activities share a capacity for one and a half") {
  Platform platform = plain_platform();
  share(platform, Scope::Node, 1.5e11, {Lane::H2D, Lane::CpuAdam}, 1e11);
  ProgramBuilder builder;
  builder.copy_in(kSecond);
  builder.adam(kSecond);
  Engine engine(platform, 1);
  CHECK_THAT(engine.simulate(builder.program()).step_seconds, is(1 / 0.75));
}

TEST_CASE("CPU Adam takes memory bandwidth in proportion to what its threads can move") {
  // The capacity is 1: two threads of Adam ask all of it and one asks half; a copy asks all.
  Platform platform = plain_platform();
  platform.host_cores = 4;
  platform.num_devices = 2;
  platform.cpu_adam[2] = {{{0, 0, 0}, {1e9, 0.5, 0}}};
  share(platform, Scope::Node, 1, {Lane::H2D, Lane::CpuAdam}, 1);
  ProgramBuilder builder;
  const auto copy = builder.copy_in(kSecond);
  const auto adam = builder.adam(kSecond);
  builder.after_previous(copy, adam).after_previous(adam, copy);
  const auto ends = [&](int threads) {
    Program program = builder.program();
    program.cpu_adam_threads = threads;
    Engine engine(platform, 1);
    const Timeline timeline = engine.simulate(program);
    CHECK(lower_bound_seconds(program, platform) <= timeline.step_seconds * (1 + 1e-9));
    return std::pair(find(timeline, copy).end, find(timeline, adam).end);
  };
  // Each gets half until Adam ends at 1; then the copy runs alone.
  CHECK_THAT(ends(2).first, is(1.5));
  CHECK_THAT(ends(2).second, is(1));
  // One thread asks only half: it takes its second, and the copy gets the other half meanwhile.
  CHECK_THAT(ends(1).first, is(1.5));
  CHECK_THAT(ends(1).second, is(1));
  // If the platform describes one thread, two ask twice the capacity.
  platform.shared_adam_threads = 1;
  CHECK_THAT(ends(1).first, is(2));
  CHECK_THAT(ends(1).second, is(2));
  CHECK_THAT(ends(2).first, is(2));
  CHECK_THAT(ends(2).second, is(2));
}

TEST_CASE("a curve of CPU Adam that was not measured is an error only if it is needed") {
  Platform platform = plain_platform();
  platform.cpu_adam = {{1, {}}};
  share(platform, Scope::Node, 1, {Lane::H2D, Lane::CpuAdam}, 1);
  ProgramBuilder builder;
  builder.copy_in(kSecond);
  Engine engine(platform, 1);
  CHECK_THAT(engine.simulate(builder.program()).step_seconds, is(1));
  builder.adam(kSecond);
  CHECK_THROWS_AS(engine.simulate(builder.program()), InputError);
}

TEST_CASE("an activity speeds up when the one that shares with it ends") {
  Platform platform = plain_platform();
  share(platform, Scope::Node, 1, {Lane::H2D, Lane::D2H}, 1);
  ProgramBuilder builder;
  const auto in = builder.copy_in(kSecond);
  const auto out = builder.copy_out(kSecond / 2);
  builder.after_previous(out, in);
  Engine engine(platform, 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, out).end, is(1));
  CHECK_THAT(find(timeline, in).end, is(1.5));
}

TEST_CASE("unequal demands share max-min fairly") {
  // The capacity is 6: compute asks 1 and gets it; the copies ask 4 each and get 2.5.
  Platform platform = plain_platform();
  share(platform, Scope::Device, 6, {Lane::H2D, Lane::D2H}, 4);
  platform.shared[0].use[Lane::Compute] = 1;
  ProgramBuilder builder;
  const auto in = builder.copy_in(kSecond);
  const auto out = builder.copy_out(kSecond);
  const auto compute = builder.compute(5);
  Engine engine(platform, 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, in).end, is(4 / 2.5));
  CHECK_THAT(find(timeline, out).end, is(4 / 2.5));
  CHECK_THAT(find(timeline, compute).end, is(5));
}

TEST_CASE("full-duplex directions do not slow each other down; with a capped bridge they do") {
  ProgramBuilder builder;
  const auto in = builder.copy_in(kSecond);
  const auto out = builder.copy_out(kSecond);
  Platform platform = plain_platform();
  share(platform, Scope::Node, 1, {Lane::H2D}, 1);
  share(platform, Scope::Node, 1, {Lane::D2H}, 1);
  {
    Engine engine(platform, 1);
    const Timeline timeline = engine.simulate(builder.program());
    CHECK_THAT(find(timeline, in).end, is(1));
    CHECK_THAT(find(timeline, out).end, is(1));
  }
  share(platform, Scope::Node, 1.2, {Lane::H2D, Lane::D2H}, 1);
  Engine engine(platform, 1);
  const Timeline timeline = engine.simulate(builder.program());
  CHECK_THAT(find(timeline, in).end, is(1 / 0.6));
  CHECK_THAT(find(timeline, out).end, is(1 / 0.6));
}

TEST_CASE("an activity that asks for more than the capacity runs at the capacity") {
  Platform platform = plain_platform();
  share(platform, Scope::Node, 1, {Lane::H2D}, 2);
  ProgramBuilder builder;
  builder.copy_in(kSecond);
  Engine engine(platform, 1);
  CHECK_THAT(engine.simulate(builder.program()).step_seconds, is(2));
}

}  // namespace
}  // namespace athanor
