// SPDX-License-Identifier: Apache-2.0
// Bounds of the search where copies to the host add to sums there.
#include "sim/bounds/bounds.hpp"
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "sim/search/space/normal_form.hpp"
#include "tests/search/estimate_cases.hpp"
#include "tests/search/random_spaces.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <random>
#include <vector>

namespace athanor {
namespace {

using test::block;
using test::Case;
using test::FewUnits;
using test::group_micro_batches;
using test::kElements;
using test::kThreads;
using test::no_time;
using test::require_least_of_group;

}  // namespace

TEST_CASE("bounds hold whatever contends with copies that add, and tell them from others") {
  std::mt19937 random(37);
  std::uniform_real_distribution<double> slowdown(1, 3);
  const std::vector<std::vector<Lane>> loads{
      {Lane::Compute, Lane::D2H}, {Lane::Compute, Lane::H2D, Lane::D2H},
      {Lane::H2D, Lane::D2H},     {Lane::Collective, Lane::D2H},
      {Lane::D2H, Lane::CpuAdam}, {Lane::Compute, Lane::Collective}};
  int count = 0, raised = 0, refined = 0;
  for (int round = 0; round < 60; ++round) {
    Case c(random, round);
    std::erase_if(c.platform.shared, [](const auto& shared) { return shared.name != "nvme"; });
    c.platform.contention.clear();
    for (const std::vector<Lane>& lanes : loads) {
      ContentionSample& load = c.platform.contention.emplace_back();
      for (const Lane lane : lanes) load.slowdown[lane] = slowdown(random);
      load.d2h_adds = load.slowdown.contains(Lane::D2H) && slowdown(random) < 2.5;
    }
    const TuningProblem problem = tuning_problem(c.profile, c.platform, c.request);
    const BoundTerms fewer = BoundTerms().without(BoundTerm::FurtherWeights);
    Estimator estimator(problem, kThreads);
    Estimator without(problem, kThreads, fewer);
    Engine engine(c.platform, c.request.num_gpus);
    for (int i = 0; i < 40; ++i) {
      Candidate candidate = test::random_candidate(random);
      candidate.batch = {1, 2 + 2 * (i % 2)};
      candidate.late_updates = i % 3;
      candidate.gpu_adam_units = i % 5;
      candidate.speculate = c.request.clipping != Clipping::None &&
                            c.profile.dtype == DataType::BFloat16 && i % 2 == 0;
      if (!is_sensible(candidate, c.request.num_gpus, c.profile.architecture)) continue;
      candidate = normal_form(candidate, c.profile.architecture, c.request.num_gpus,
                              c.request.clipping != Clipping::None);
      if (i % 4 == 0) group_micro_batches(random, candidate, c.profile.architecture);
      const Program program = lower(c.profile, make_plan(candidate, c.profile, c.request));
      const Seconds simulated = engine.simulate(program, {.record_intervals = false}).step_seconds;
      const Seconds bound = estimator.bound_seconds(candidate);
      const Seconds lowered = lower_bound_seconds(program, c.platform);
      CAPTURE(round, i);
      REQUIRE(bound <= simulated * (1 + 1e-6));
      REQUIRE(lowered <= simulated * (1 + 1e-6));
      require_least_of_group(random, estimator, candidate, peak_bytes(program), simulated);
      ++count;
      raised += bound > without.bound_seconds(candidate) * (1 + 1e-3) ? 1 : 0;
      const BoundTables tables =
          bound_tables(c.platform, program.world_size, program.cpu_adam_threads, fewer);
      refined += lowered > lower_bound_seconds(program, c.platform, tables) * (1 + 1e-3) ? 1 : 0;
    }
  }
  CHECK(count > 1000);
  CHECK(raised > 50);
  CHECK(refined > 25);
}

TEST_CASE("kernels wait for copies that add where the two are no faster together") {
  constexpr Seconds kForward = 1, kBackward = 2, kAdd = 3, kRounding = 1e-3;
  FewUnits few({block("first"), block("second"), block("third")}, kForward, kBackward);
  few.platform.device_adam = few.platform.h2d = few.platform.d2h = no_time();
  few.platform.d2h_add = {{{0, 0, 0}, {8 * kElements, 2 * kAdd, 0}}};
  few.update_in(0);
  few.platform.contention = {
      {1, {{Lane::Compute, 2}, {Lane::D2H, 2}}, /*d2h_adds=*/true},
  };
  few.request.global_batch = 3;
  few.candidate.batch = {1, 3};
  few.candidate.leading_gpu_parameters = few.candidate.gradient_buffers = 3;
  // The first micro-batch's gradients are copied, and take no time.
  const Seconds expected = 3 * 3 * (kForward + kBackward) + 2 * 3 * kAdd;
  CHECK_THAT(few.bound(), Catch::Matchers::WithinRel(expected, kRounding));
  CHECK_THAT(few.simulated(), Catch::Matchers::WithinRel(expected, kRounding));
}

}  // namespace athanor
