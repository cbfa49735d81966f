// SPDX-License-Identifier: Apache-2.0
// Fitted resources give the measured slowdowns back under max-min fair sharing.
#include "calibrate/machine/capacity.hpp"
#include "calibrate/machine/pair_contention.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

/// Slowdown of `count` equal flows of rate 1 on one resource, as the engine has it.
double shared_slowdown(const SharedResource& resource, int count) {
  return std::max(1.0, count / resource.capacity);
}

TEST_CASE("a concurrent run's slowdown comes back from its capacity") {
  CHECK(capacity_of({Lane::Compute, 4, 1.0}) == 4.0);
  CHECK(capacity_of({Lane::Compute, 4, 4.0}) == 1.0);
  CHECK(capacity_of({Lane::H2D, 2, 1.6}) == 1.25);
  CHECK(capacity_of({Lane::H2D, 2, 2.5}) == 1.0);  // one alone is never slowed down
}

TEST_CASE("several lanes share one capacity, which lies between theirs") {
  CHECK_THAT(common_capacity({{Lane::H2D, 2, 1.0}, {Lane::CpuAdam, 2, 2.0}}),
             WithinRel(std::sqrt(2.0), 1e-12));
}

TEST_CASE("pairs of the wanted lanes become concurrent runs of two") {
  const std::vector<PairSlowdown> pairs{{Lane::Compute, Lane::H2D, 3.0, 3.0},
                                        {Lane::H2D, Lane::CpuAdam, 1.0, 4.0},
                                        {Lane::CpuAdam, Lane::CpuAdam, 1.5, 1.5}};
  const std::vector<ConcurrentRun> runs = pairs_as_runs(pairs, memory_lanes());
  REQUIRE(runs.size() == 2);
  CHECK(runs[0].count == 2);
  CHECK(runs[0].slowdown == 2.0);
  CHECK(runs[1].slowdown == 1.5);
}

TEST_CASE("fitted resources give equal measurements back") {
  const ConcurrentRun compute{Lane::Compute, 4, 1.25};  // four cores that are worth 3.2
  const std::vector<ConcurrentRun> memory{{Lane::H2D, 2, 1.6}, {Lane::CpuAdam, 2, 1.6}};
  const std::vector<SharedResource> shared = fit_shared(compute, memory, 1);
  REQUIRE(shared.size() == 2);
  CHECK(shared[0].name == "cores");
  CHECK(shared[0].use.size() == kNumLanes - 2);  // all lanes but those of files
  CHECK_THAT(shared_slowdown(shared[0], 4), WithinRel(1.25, 1e-12));
  CHECK(shared_slowdown(shared[0], 3) == 1.0);
  CHECK(shared[1].name == "memory");
  CHECK_FALSE(shared[1].use.contains(Lane::Compute));
  CHECK_THAT(shared_slowdown(shared[1], 2), WithinRel(1.6, 1e-12));
}

TEST_CASE("a compute lane of several threads takes as many cores") {
  const std::vector<SharedResource> shared =
      fit_shared({Lane::Compute, 2, 1.0}, {{Lane::H2D, 2, 1.0}}, 8);
  CHECK(shared[0].capacity == 16.0);
  CHECK(shared[0].use.at(Lane::Compute) == 8.0);
  CHECK(shared[0].use.at(Lane::CpuAdam) == 1.0);
}

TEST_CASE("two files at once become one resource of the node") {
  const SharedResource nvme = fit_nvme({{Lane::NvmeRead, Lane::NvmeRead, 1.6, 1.6},
                                        {Lane::NvmeRead, Lane::NvmeWrite, 1.0, 2.56},
                                        {Lane::NvmeWrite, Lane::NvmeWrite, 1.6, 1.6}});
  CHECK(nvme.name == "nvme");
  CHECK(nvme.scope == SharedResource::Scope::Node);
  CHECK(nvme.use.size() == 2);
  CHECK_THAT(nvme.capacity, WithinRel(1.25, 1e-12));
}

TEST_CASE("every pair of lanes is measured once") {
  const StoppingRule once{
      .min_repetitions = 1, .max_repetitions = 1, .min_seconds = 0, .max_seconds = 0.001};
  const std::vector<PairSlowdown> pairs = measure_lane_pairs(1, once);
  constexpr int kMeasured = kNumLanes - 2;  // lanes of files are measured apart
  CHECK(pairs.size() == kMeasured * (kMeasured + 1) / 2);
  for (const PairSlowdown& pair : pairs) {
    CHECK(pair.first_slowdown >= 1.0);
    CHECK(pair.second_slowdown >= 1.0);
  }
}

}  // namespace
}  // namespace athanor
