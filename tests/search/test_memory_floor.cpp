// SPDX-License-Identifier: Apache-2.0
// Floors of memory: no plan is below them, and refusals say which of them is above its limit.
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/policy/memory_floor.hpp"
#include "sim/search/search.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <random>
#include <string>

namespace athanor {
namespace {

/// The problem that `plan` answers, with just the memory that it takes.
TuningProblem problem_of(const Plan& plan, const Profile& profile, const Platform& platform) {
  PlanRequest request{.num_gpus = plan.world_size, .global_batch = plan.global_batch()};
  request.clipping = plan.clipping == Clipping::None ? Clipping::None : Clipping::Wait;
  request.snapshot = plan.snapshot;
  const TierBytes peak = plan_peak_bytes(profile, plan);
  request.limits = {.gpu = peak.gpu,
                    .host = std::max<Bytes>(1, node_host_bytes(peak, plan.world_size)),
                    .nvme = node_nvme_bytes(peak, plan.world_size)};
  return tuning_problem(profile, platform, request);
}

/// The message of a search that finds nothing; empty where it finds a plan.
std::string refusal(const TuningProblem& problem, Engine& engine) {
  try {
    (void)search(problem, engine, default_search_space(problem));
  } catch (const InfeasibleError& error) {
    return error.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("no plan of any shape takes less than the floors") {
  std::mt19937 random(31);
  const Platform platform = test::synthetic_platform(4);
  int near = 0;
  for (int round = 0; round < 600; ++round) {
    Architecture architecture = test::small_architecture(1 + round % 4, round % 3 == 0);
    if (round % 5 == 4) architecture = test::with_split_blocks(std::move(architecture));
    const Plan plan = test::random_plan(architecture, random);
    const Profile profile = test::small_profile(architecture, plan.micro_batch, plan.dtype);
    const TuningProblem problem = problem_of(plan, profile, platform);
    const MemoryFloor floor = memory_floor(problem);
    CAPTURE(round, plan.world_size, plan.accumulation, problem.limits.gpu, problem.limits.host);
    REQUIRE(floor.gpu <= problem.limits.gpu);
    REQUIRE(floor.host <= problem.limits.host);
    near += 10 * floor.gpu > 6 * problem.limits.gpu || 2 * floor.host > problem.limits.host;
  }
  CHECK(near > 30);  // a floor of nothing would hold, too
}

TEST_CASE("no plan with snapshots takes less than the floors, which count copies of all state") {
  std::mt19937 random(32);
  const Platform platform = test::synthetic_platform(4);
  constexpr Bytes kCopies = 24;
  int with_copies = 0;
  for (int round = 0; round < 300; ++round) {
    const Architecture architecture = test::small_architecture(1 + round % 4, round % 3 == 0);
    Plan plan = test::random_plan(architecture, random);
    plan.snapshot = round % 3 == 0 ? Snapshot::Versions : Snapshot::Copy;
    for (UnitPlan& unit : plan.units) {
      for (ChunkRun& run : unit.chunks) {
        run.gpu_adam = false;
        if (run.parameters == Home::Nvme) run.parameters = Home::Host;
        const bool needs_host = plan.snapshot == Snapshot::Versions;
        if (run.optimizer == Home::Nvme || needs_host) run.optimizer = Home::Host;
      }
    }
    const Profile profile = test::small_profile(architecture, plan.micro_batch, plan.dtype);
    TuningProblem problem = problem_of(plan, profile, platform);
    CAPTURE(round, plan.world_size, problem.limits.gpu, problem.limits.host);
    REQUIRE(memory_floor(problem).gpu <= problem.limits.gpu);
    REQUIRE(memory_floor(problem).host <= problem.limits.host);
    if (plan.snapshot != Snapshot::Copy) continue;
    ++with_copies;
    problem.limits.gpu = kGiB;  // all state fits there
    CHECK(memory_floor(problem).host >= kCopies * architecture.num_parameters());
  }
  CHECK(with_copies > 100);
}

TEST_CASE("a refusal says what excludes every plan, or that nothing does") {
  const Platform platform = test::synthetic_platform(2);
  const Profile profile = test::synthetic_profile(test::small_architecture(3, true), 64, {1, 2});
  Engine engine(platform, 1);
  int by_gpu = 0, by_host = 0, fits = 0;
  std::mt19937 random(7);
  for (int round = 0; round < 60; ++round) {
    PlanRequest request{.num_gpus = 1, .global_batch = 2};
    const auto bytes = [&](double low, double high) {
      return static_cast<Bytes>(
          std::exp(std::uniform_real_distribution(std::log(low), std::log(high))(random)));
    };
    request.limits = {.gpu = bytes(2e4, 3e5), .host = bytes(2e3, 6e4)};
    const TuningProblem problem = tuning_problem(profile, platform, request);
    const std::string message = refusal(problem, engine);
    const MemoryFloor floor = memory_floor(problem);
    CAPTURE(round, request.limits.gpu, request.limits.host, floor.gpu, floor.host, message);
    fits += message.empty() ? 1 : 0;
    const bool gpu_is_proof = floor.gpu > request.limits.gpu;
    const bool host_is_proof = !gpu_is_proof && floor.host > request.limits.host;
    CHECK(has(message, "Proven: every plan needs at least") == (gpu_is_proof || host_is_proof));
    CHECK(has(message, "of a GPU. What would fit") == gpu_is_proof);
    if (!message.empty()) CHECK(has(message, "Not proven") == !(gpu_is_proof || host_is_proof));
    CHECK_FALSE(message.ends_with('.'));  // it would be copied with the last value
    by_gpu += gpu_is_proof ? 1 : 0;
    by_host += host_is_proof ? 1 : 0;
  }
  CHECK(by_gpu > 3);
  CHECK(by_host > 3);
  CHECK(fits > 3);
}

}  // namespace athanor
