// SPDX-License-Identifier: Apache-2.0
// Ranks share resources with the ranks of their own node, and with no others.
#include "sim/engine/engine.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;
using test::cluster;
using test::plain_platform;
using test::ProgramBuilder;

constexpr Bytes kSecond = 1'000'000'000;
constexpr double kTolerance = 1e-9;

Seconds step_of(const Platform& platform, int world_size, RankModel model) {
  ProgramBuilder builder(world_size);
  builder.copy_in(kSecond);
  Engine engine(platform, world_size, model);
  return engine.simulate(builder.program()).step_seconds;
}

TEST_CASE("each node has its own host memory") {
  const RankModel model = GENERATE(RankModel::Folded, RankModel::Each);
  Platform node = plain_platform();
  test::share(node, SharedResource::Scope::Node, 1e9, {Lane::H2D}, 1e9);
  const Platform platform = cluster(node, 2);
  CHECK_THAT(step_of(platform, 1, model), WithinRel(1, kTolerance));
  CHECK_THAT(step_of(platform, 2, model), WithinRel(2, kTolerance));
  CHECK_THAT(step_of(platform, 4, model), WithinRel(2, kTolerance));
  CHECK_THAT(step_of(platform, 16, model), WithinRel(2, kTolerance));
}

TEST_CASE("ranks slow down those of their own node alone") {
  const RankModel model = GENERATE(RankModel::Folded, RankModel::Each);
  Platform node = plain_platform();
  node.contention = {{2, {{Lane::H2D, 1.5}}}};
  const Platform platform = cluster(node, 2);
  CHECK_THAT(step_of(platform, 1, model), WithinRel(1, kTolerance));
  CHECK_THAT(step_of(platform, 2, model), WithinRel(1.5, kTolerance));
  CHECK_THAT(step_of(platform, 8, model), WithinRel(1.5, kTolerance));
}

TEST_CASE("a gather over nodes runs while each node copies") {
  // 4 ranks on 2 nodes: 3/4 of 4 GB through two NICs of 1 GB/s, 6 s through the node's own links.
  Platform platform = cluster(plain_platform(), 2);
  platform.network->bytes_per_second = 0.25e9;
  ProgramBuilder builder(4);
  const auto gather = builder.gather(4 * kSecond);
  const auto copy = builder.copy_in(5 * kSecond);
  const Timeline timeline = Engine(platform, 4, RankModel::Each).simulate(builder.program());
  for (const int rank : {0, 3}) {
    CHECK_THAT(test::find(timeline, gather, 0, rank).end, WithinRel(6 + 1e-6, kTolerance));
    CHECK_THAT(test::find(timeline, copy, 0, rank).end, WithinRel(5, kTolerance));
  }
  CHECK_THAT(timeline.step_seconds, WithinRel(6 + 1e-6, kTolerance));
}

}  // namespace
}  // namespace athanor
