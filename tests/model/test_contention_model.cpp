// SPDX-License-Identifier: Apache-2.0
#include "sim/cost/contention.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <bit>
#include <cmath>
#include <random>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kRounding = 1e-12;
constexpr LaneSet kAll = kNumLaneSets - 1;

LaneSet set_of(const std::vector<Lane>& lanes) {
  LaneSet set = 0;
  for (const Lane lane : lanes) set |= lane_bit(lane);
  return set;
}

}  // namespace

TEST_CASE("without samples nothing is slowed down") {
  const ContentionModel contention({}, 4);
  CHECK(contention.none());
  for (const Lane lane : kLanes) CHECK(contention.slowdown(lane, kAll) == 1);
}

TEST_CASE("every contention sample is reproduced, whatever else was measured") {
  std::mt19937 random(3);
  std::uniform_int_distribution<LaneSet> any_set(1, kAll);
  std::uniform_real_distribution<double> any_slowdown(1.0, 8.0);
  for (int round = 0; round < 200; ++round) {
    std::vector<ContentionSample> loads;
    for (const int ranks : {1, 2, 4}) {
      for (LaneSet set = 1; set <= kAll; ++set) {
        const bool adds = (set & kD2HAdds) != 0;
        const bool alone = ranks == 1 && std::popcount(set & ~kD2HAdds) == 1;
        if (alone || (adds && (set & lane_bit(Lane::D2H)) == 0) || any_set(random) > 8) continue;
        ContentionSample load{ranks, {}, adds};
        for (const Lane lane : kLanes) {
          if ((set & lane_bit(lane)) != 0) load.slowdown[lane] = any_slowdown(random);
        }
        loads.push_back(load);
      }
    }
    for (const ContentionSample& load : loads) {
      const ContentionModel contention(loads, load.ranks);
      for (const auto& [lane, slowdown] : load.slowdown) {
        CAPTURE(round, sample_name(load), lane_name(lane));
        REQUIRE_THAT(contention.slowdown(lane, lanes_of(load)), WithinRel(slowdown, 1e-9));
        REQUIRE(contention.least(lane) <= slowdown * (1 + kRounding));
        REQUIRE(contention.most(lane) >= slowdown * (1 - kRounding));
      }
    }
  }
}

TEST_CASE("a set of lanes that was not measured is slowed down by all its measured subsets") {
  const ContentionModel contention({{1, {{Lane::H2D, 1.5}, {Lane::CpuAdam, 1.2}}},
                                    {1, {{Lane::D2H, 1.0}, {Lane::CpuAdam, 1.25}}}},
                                   1);
  const LaneSet three = set_of({Lane::H2D, Lane::D2H, Lane::CpuAdam});
  CHECK_THAT(contention.slowdown(Lane::CpuAdam, three), WithinRel(1.2 * 1.25, kRounding));
  CHECK_THAT(contention.slowdown(Lane::H2D, three), WithinRel(1.5, kRounding));
  CHECK(contention.slowdown(Lane::D2H, three) == 1);
  CHECK(contention.slowdown(Lane::Compute, kAll) == 1);
}

TEST_CASE("adding to host memory slows down by what copying does and what was measured for it") {
  const std::vector<ContentionSample> loads{
      {1, {{Lane::Compute, 1.1}, {Lane::D2H, 1.2}}},
      {1, {{Lane::Compute, 1.3}, {Lane::D2H, 1.5}}, /*d2h_adds=*/true},
      {1, {{Lane::D2H, 1.4}, {Lane::CpuAdam, 1.6}}}};
  const ContentionModel contention(loads, 1);
  const LaneSet pair = set_of({Lane::Compute, Lane::D2H});
  CHECK_THAT(contention.slowdown(Lane::Compute, pair), WithinRel(1.1, kRounding));
  CHECK_THAT(contention.slowdown(Lane::Compute, pair | kD2HAdds), WithinRel(1.3, kRounding));
  const LaneSet three = pair | lane_bit(Lane::CpuAdam);
  CHECK_THAT(contention.slowdown(Lane::D2H, three), WithinRel(1.2 * 1.4, kRounding));
  CHECK_THAT(contention.slowdown(Lane::D2H, three | kD2HAdds), WithinRel(1.5 * 1.4, kRounding));
  const LaneSet without = set_of({Lane::Compute, Lane::CpuAdam});
  CHECK(contention.slowdowns(without | kD2HAdds) == contention.slowdowns(without));
}

TEST_CASE("a pair's slowdown on other numbers of ranks multiplies with that of its lanes") {
  const std::vector<ContentionSample> loads{{4, {{Lane::H2D, 2.0}}},
                                            {1, {{Lane::H2D, 1.5}, {Lane::CpuAdam, 1.2}}}};
  const LaneSet pair = set_of({Lane::H2D, Lane::CpuAdam});
  CHECK_THAT(ContentionModel(loads, 4).slowdown(Lane::H2D, pair), WithinRel(3.0, kRounding));
  CHECK_THAT(ContentionModel(loads, 4).slowdown(Lane::CpuAdam, pair), WithinRel(1.2, kRounding));
}

TEST_CASE("slowdowns are interpolated between measured numbers of ranks, and constant beyond") {
  const std::vector<ContentionSample> loads{{4, {{Lane::H2D, 4.0}}}};
  const LaneSet alone = lane_bit(Lane::H2D);
  CHECK(ContentionModel(loads, 1).none());
  CHECK_THAT(ContentionModel(loads, 2).slowdown(Lane::H2D, alone), WithinRel(2.0, kRounding));
  CHECK_THAT(ContentionModel(loads, 3).slowdown(Lane::H2D, alone), WithinRel(3.0, kRounding));
  CHECK_THAT(ContentionModel(loads, 8).slowdown(Lane::H2D, alone), WithinRel(4.0, kRounding));
}

TEST_CASE("CPU Adam at half the demand is slowed by the root of what was measured") {
  const std::vector<ContentionSample> loads{{4, {{Lane::H2D, 2.0}}},
                                            {4, {{Lane::CpuAdam, 1.21}}},
                                            {1, {{Lane::H2D, 2.25}, {Lane::CpuAdam, 1.44}}}};
  const LaneSet pair = set_of({Lane::H2D, Lane::CpuAdam});
  const ContentionModel half(loads, 4, 0.5);
  constexpr double kRoot = 1.1 * 1.2;
  CHECK_THAT(half.slowdown(Lane::CpuAdam, pair), WithinRel(kRoot, kRounding));
  // Half of the speed alone, over the root of the slowdown instead of all of it.
  CHECK_THAT(half.slowdown(Lane::H2D, pair), WithinRel(2 * std::pow(2.25, kRoot / 2), kRounding));
  CHECK_THAT(half.slowdown(Lane::H2D, lane_bit(Lane::H2D)), WithinRel(2.0, kRounding));
}

TEST_CASE("a node's contention follows its threads for CPU Adam") {
  Platform platform;
  platform.host_cores = 8;
  platform.cpu_adam = {{1, {{{1000, 4, 0}}}}, {4, {{{1000, 1, 0}}}}, {8, {{{1000, 0.5, 0}}}}};
  platform.contention = {{1, {{Lane::H2D, 2.0}, {Lane::CpuAdam, 1.5}}}};
  const LaneSet pair = set_of({Lane::H2D, Lane::CpuAdam});
  const auto copies = [&](int ranks, int threads) {
    return ContentionModel(platform, ranks, threads).slowdown(Lane::H2D, pair);
  };
  const auto with_share = [](double share) {
    return std::pow(2.0, share * std::pow(1.5, 1 - share));
  };
  CHECK_THAT(copies(1, 8), WithinRel(2.0, kRounding));
  CHECK_THAT(copies(1, 4), WithinRel(with_share(1.0 / 2), kRounding));
  CHECK_THAT(copies(1, 1), WithinRel(with_share(1.0 / 8), kRounding));
  CHECK_THAT(copies(2, 4), WithinRel(2.0, kRounding));  // half of the cores per rank
  CHECK_THAT(copies(2, 8), WithinRel(2.0, kRounding));  // no more threads than cores
}

TEST_CASE("fewer threads never make CPU Adam faster, and it takes of others what its speed is") {
  constexpr double kShare = 0.5;
  constexpr LaneSet kBoth = lane_bit(Lane::H2D) | lane_bit(Lane::CpuAdam);
  const auto slowdowns = [](double h2d, double adam, double share) {
    return ContentionModel({{1, {{Lane::H2D, h2d}, {Lane::CpuAdam, adam}}}}, 1, share)
        .slowdowns(kBoth);
  };

  // Memory is what both numbers of threads wait for: twice the time alone, half the slowdown.
  const LaneValues full = slowdowns(5.5, 6.5, kShare);
  CHECK_THAT(full[lane_index(Lane::CpuAdam)], WithinRel(kShare * 6.5, kRounding));
  CHECK_THAT(full[lane_index(Lane::H2D)], WithinRel(5.5, kRounding));

  // Memory has room for half of the threads: their slowdown is the root, their speed 0.55.
  const LaneValues light = slowdowns(1.5, 1.21, kShare);
  CHECK_THAT(light[lane_index(Lane::CpuAdam)], WithinRel(1.1, kRounding));
  CHECK_THAT(light[lane_index(Lane::H2D)], WithinRel(std::pow(1.5, 0.55), kRounding));

  double before = slowdowns(5.5, 6.5, 0.05)[lane_index(Lane::CpuAdam)] / 0.05;
  for (double share = 0.1; share <= 1; share += 0.05) {
    const double seconds = slowdowns(5.5, 6.5, share)[lane_index(Lane::CpuAdam)] / share;
    CHECK(seconds <= before * (1 + kRounding));
    before = seconds;
  }
}

TEST_CASE("a measurement below 1 is noise") {
  const ContentionModel contention({{1, {{Lane::H2D, 0.99}, {Lane::Compute, 1.01}}}}, 1);
  CHECK(contention.slowdown(Lane::H2D, kAll) == 1);
  CHECK_THAT(contention.slowdown(Lane::Compute, kAll), WithinRel(1.01, kRounding));
}

}  // namespace athanor
