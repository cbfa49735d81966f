// SPDX-License-Identifier: Apache-2.0
// Fitted resources give back what lanes did to each other.
#include "calibrate/shared_fit.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kCopyRate = 55.5e9;

void check_given_back(const std::vector<Load>& loads, double tolerance) {
  const std::vector<SharedResource> shared = fit_loads(loads, kCopyRate);
  for (const Load& load : loads) {
    const std::map<Lane, double> given = shared_slowdowns(shared, load);
    for (const auto& [lane, slowdown] : load.slowdown) {
      CAPTURE(load_name(load), lane_name(lane));
      CHECK_THAT(given.at(lane), WithinRel(slowdown, tolerance));
    }
  }
}

TEST_CASE("flows share a resource max-min fairly") {
  const SharedResource bridge{
      "bridge", SharedResource::Scope::Node, 12, {{Lane::H2D, 4}, {Lane::D2H, 10}}};
  const std::map<Lane, double> alone = shared_slowdowns({bridge}, {1, {{Lane::H2D, 1}}});
  CHECK(alone.at(Lane::H2D) == 1.0);
  // The slow flow keeps its rate, the fast one gets what is left.
  const auto both = shared_slowdowns({bridge}, {1, {{Lane::H2D, 1}, {Lane::D2H, 1}}});
  CHECK(both.at(Lane::H2D) == 1.0);
  CHECK_THAT(both.at(Lane::D2H), WithinRel(10.0 / 8.0, 1e-12));
  // Four ranks: 3 each, of which both flows get the half.
  const auto ranks = shared_slowdowns({bridge}, {4, {{Lane::H2D, 1}, {Lane::D2H, 1}}});
  CHECK_THAT(ranks.at(Lane::H2D), WithinRel(4.0 / 1.5, 1e-12));
  CHECK_THAT(ranks.at(Lane::D2H), WithinRel(10.0 / 1.5, 1e-12));
}

TEST_CASE("lanes that do not disturb each other share nothing") {
  CHECK(fit_loads({{1, {{Lane::Compute, 1.0}, {Lane::H2D, 1.01}}}}, kCopyRate).empty());
}

TEST_CASE("a pair comes back exactly, however unequal its slowdowns") {
  check_given_back({{1, {{Lane::Compute, 1.12}, {Lane::Collective, 1.5}}}}, 1e-9);
  check_given_back({{1, {{Lane::Compute, 1.0}, {Lane::Collective, 1.4}}}}, 1e-9);
}

TEST_CASE("a node of four GPUs behind one bridge comes back") {
  // One GPU: 55.5 GB/s each way, 101.6 both ways. Four: 175 in, 148 out, 179 both ways.
  const double both_of_one = 111.0 / 101.6;
  const double both_of_four = 444.0 / 179.0;
  check_given_back({{1, {{Lane::H2D, both_of_one}, {Lane::D2H, both_of_one}}},
                    {4, {{Lane::H2D, 222.0 / 175.0}}},
                    {4, {{Lane::D2H, 222.0 / 148.0}}},
                    {4, {{Lane::H2D, both_of_four}, {Lane::D2H, both_of_four}}}},
                   1e-9);
}

TEST_CASE("what lanes use is in the unit of the copies") {
  const std::vector<SharedResource> shared =
      fit_loads({{1, {{Lane::H2D, 1.2}, {Lane::CpuAdam, 1.6}}}}, kCopyRate);
  REQUIRE(shared.size() == 1);
  CHECK(shared[0].scope == SharedResource::Scope::Device);
  CHECK(shared[0].use.at(Lane::H2D) == kCopyRate);
  CHECK_THAT(shared[0].use.at(Lane::CpuAdam), WithinRel(kCopyRate * 1.6 / 1.2, 1e-12));
  CHECK_THAT(shared[0].capacity, WithinRel(2 * kCopyRate / 1.2, 1e-12));
}

TEST_CASE("a lane has one use, decided by the pair that disturbs most") {
  const std::vector<Load> loads{{1, {{Lane::H2D, 1.5}, {Lane::CpuAdam, 1.5}}},
                                {1, {{Lane::D2H, 1.3}, {Lane::CpuAdam, 1.35}}},
                                {1, {{Lane::H2D, 1.1}, {Lane::D2H, 1.1}}}};
  const std::vector<SharedResource> shared = fit_loads(loads, kCopyRate);
  for (const SharedResource& first : shared) {
    for (const SharedResource& second : shared) {
      for (const auto& [lane, use] : first.use) {
        if (second.use.contains(lane)) CHECK(second.use.at(lane) == use);
      }
    }
  }
  check_given_back({loads[0]}, 1e-9);
  check_given_back(loads, 0.05);
}

}  // namespace
}  // namespace athanor
