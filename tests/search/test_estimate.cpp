// SPDX-License-Identifier: Apache-2.0
// The closed forms of the search against lowered programs.
#include "sim/bounds/bounds.hpp"
#include "sim/cost/scaling.hpp"
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "sim/search/space/normal_form.hpp"
#include "tests/search/estimate_cases.hpp"
#include "tests/search/random_spaces.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
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
using test::unit_of;

}  // namespace

TEST_CASE("estimated memory is that of the lowered program, and the bound is below its time") {
  std::mt19937 random(5);
  int count = 0, tight = 0, parted = 0, with_barrier = 0, grouped = 0, grouped_parts = 0;
  for (int round = 0; round < 120; ++round) {
    const Case c(random, round);
    Estimator estimator(tuning_problem(c.profile, c.platform, c.request), kThreads);
    Engine engine(c.platform, c.request.num_gpus);
    for (int i = 0; i < 80; ++i) {
      Candidate candidate = test::random_candidate(random);
      const std::int64_t micro_batch = 1 << (i % 3);
      candidate.batch = {micro_batch, 4 / micro_batch};
      const bool may_speculate =
          c.request.clipping != Clipping::None && c.profile.dtype == DataType::BFloat16;
      candidate.late_updates = i % 5;
      candidate.gpu_adam_units = i % 7;
      candidate.speculate = may_speculate && i % 3 != 0;
      if (!is_sensible(candidate, c.request.num_gpus, c.profile.architecture)) continue;
      candidate = normal_form(candidate, c.profile.architecture, c.request.num_gpus);
      group_micro_batches(random, candidate, c.profile.architecture);
      const Program program = lower(c.profile, make_plan(candidate, c.profile, c.request));
      const TierBytes expected = peak_bytes(program);
      const TierBytes peak = estimator.peak_bytes(candidate);
      CAPTURE(round, i);
      REQUIRE(peak.gpu == expected.gpu);
      REQUIRE(peak.pinned == expected.pinned);
      REQUIRE(peak.host == expected.host);
      REQUIRE(peak.nvme == expected.nvme);
      const Seconds bound = estimator.bound_seconds(candidate);
      const Seconds refined = lower_bound_seconds(program, c.platform);
      const Seconds simulated = engine.simulate(program, {.record_intervals = false}).step_seconds;
      REQUIRE(bound <= simulated * (1 + 1e-6));
      require_least_of_group(random, estimator, candidate, peak, simulated);
      ++count;
      tight += bound >= 0.7 * refined ? 1 : 0;
      const bool is_better = bound > refined * (1 + 1e-3);
      (candidate.batch.accumulation > 1 ? parted : with_barrier) += is_better ? 1 : 0;
      grouped += candidate.batch.group > 1 ? 1 : 0;
      grouped_parts += is_better && candidate.batch.num_groups() > 1 && candidate.batch.group > 1;
    }
  }
  CHECK(count > 500);
  CHECK(tight > count / 2);  // else it would not rule anything out
  // Parts of the step say more than the whole, of one micro-batch too.
  CHECK(parted > 10);
  CHECK(with_barrier > 3);
  CHECK(grouped > count / 5);
  CHECK(grouped_parts > 0);
}

TEST_CASE("with snapshots, too, memory is that of the program, and the bound is below its time") {
  std::mt19937 random(31);
  int count = 0, tight = 0, with_copies = 0, copied = 0, sent = 0, rare = 0;
  for (int round = 0; round < 120; ++round) {
    Case c(random, round);
    const bool may_speculate =
        c.request.clipping != Clipping::None && c.profile.dtype == DataType::BFloat16;
    if (round % 2 == 1 && c.request.num_gpus % 2 == 0) {
      c.platform.num_devices = c.request.num_gpus / 2;
      c.platform.network = Network{
          .max_nodes = 2, .nics = 2, .bytes_per_second = 1e9 * (1 + round), .latency = 1e-6};
      c.request.snapshot = Snapshot::Versions;
      c.request.snapshot_copies = 2;
      c.request.snapshot_send = static_cast<SnapshotSend>(with_copies++ % 5);
    }
    const bool in_some_steps = round % 5 == 3;  // all state is on the GPU then
    if (in_some_steps) {
      c.request.snapshot = Snapshot::Copy;
      c.request.snapshot_every = 2 + round % 3;
    }
    Estimator estimator(tuning_problem(c.profile, c.platform, c.request), kThreads);
    Engine engine(c.platform, c.request.num_gpus);
    for (int i = 0; i < 20; ++i) {
      Candidate candidate = test::random_candidate(random);
      const std::int64_t micro_batch = 1 << (i % 3);
      candidate.batch = {micro_batch, 4 / micro_batch};
      candidate.trailing_nvme_optimizer = 0;
      candidate.nvme_parameters = false;
      const bool may_redo =
          c.request.adam_state == AdamState::Float32 && c.request.snapshot_copies == 1;
      candidate.snapshot = may_redo && i % 4 == 0 ? Snapshot::Redo : Snapshot::Versions;
      if (in_some_steps) {
        candidate.snapshot = Snapshot::Copy;
        candidate.leading_gpu_optimizer = static_cast<int>(c.profile.architecture.units.size());
        candidate.leading_gpu_parameters = candidate.leading_gpu_optimizer;
      } else if (i % 4 > 1) {
        candidate.snapshot = Snapshot::Copy;
      } else {
        candidate.leading_gpu_optimizer = candidate.trailing_gpu_optimizer = 0;
        candidate.attention_on_gpu = false;
      }
      candidate.late_updates = i % 5;
      candidate.speculate = may_speculate && i % 3 != 0;
      if (!is_sensible(candidate, c.request.num_gpus, c.profile.architecture)) continue;
      candidate = normal_form(candidate, c.profile.architecture, c.request.num_gpus);
      group_micro_batches(random, candidate, c.profile.architecture);
      const Program program = lower(c.profile, make_plan(candidate, c.profile, c.request));
      const TierBytes expected = peak_bytes(program);
      const TierBytes peak = estimator.peak_bytes(candidate);
      CAPTURE(round, i);
      REQUIRE(peak.gpu == expected.gpu);
      REQUIRE(peak.pinned == expected.pinned);
      REQUIRE(peak.host == expected.host);
      const Seconds bound = estimator.bound_seconds(candidate);
      const Seconds simulated = engine.simulate(program, {.record_intervals = false}).step_seconds;
      REQUIRE(lower_bound_seconds(program, c.platform) <= simulated * (1 + 1e-6));
      REQUIRE(bound <= simulated * (1 + 1e-6));
      require_least_of_group(random, estimator, candidate, peak, simulated);
      ++count;
      rare += c.request.snapshot_every > 1 ? 1 : 0;
      copied += candidate.snapshot == Snapshot::Copy ? 1 : 0;
      sent += candidate.snapshot == Snapshot::Copy && c.request.snapshot_copies > 1 ? 1 : 0;
      tight += bound >= 0.7 * simulated ? 1 : 0;
    }
  }
  CHECK(count > 300);
  CHECK(copied > 100);
  CHECK(sent > 30);
  CHECK(rare > 50);
  CHECK(tight > count / 4);
  CHECK(with_copies > 10);
}

TEST_CASE("bounds hold whatever contends where gradients are clipped, and the norm raises them") {
  std::mt19937 random(29);
  std::uniform_real_distribution<double> slowdown(1, 3);
  const std::vector<std::vector<Lane>> loads{{Lane::Compute, Lane::D2H},
                                             {Lane::Compute, Lane::H2D},
                                             {Lane::H2D, Lane::CpuAdam},
                                             {Lane::D2H, Lane::CpuAdam},
                                             {Lane::Compute, Lane::D2H, Lane::CpuAdam}};
  int count = 0, raised = 0;
  for (int round = 0; round < 60; ++round) {
    Case c(random, round);
    c.request.clipping = Clipping::Wait;
    c.platform.contention.clear();
    for (const std::vector<Lane>& lanes : loads) {
      ContentionSample& load = c.platform.contention.emplace_back();
      load.ranks = 1;
      for (const Lane lane : lanes) load.slowdown[lane] = slowdown(random);
    }
    const TuningProblem problem = tuning_problem(c.profile, c.platform, c.request);
    Estimator estimator(problem, kThreads);
    Estimator without(problem, kThreads, BoundTerms().without(BoundTerm::NormParts));
    Engine engine(c.platform, c.request.num_gpus);
    for (int i = 0; i < 20; ++i) {
      Candidate candidate = test::random_candidate(random);
      candidate.batch = {1, 4};
      candidate.late_updates = i % 3;
      candidate.speculate = c.profile.dtype == DataType::BFloat16 && i % 2 == 0;
      if (!is_sensible(candidate, c.request.num_gpus, c.profile.architecture)) continue;
      candidate =
          normal_form(candidate, c.profile.architecture, c.request.num_gpus, /*clips=*/true);
      group_micro_batches(random, candidate, c.profile.architecture);
      const Program program = lower(c.profile, make_plan(candidate, c.profile, c.request));
      const Seconds simulated = engine.simulate(program, {.record_intervals = false}).step_seconds;
      const Seconds bound = estimator.bound_seconds(candidate);
      CAPTURE(round, i);
      REQUIRE(bound <= simulated * (1 + 1e-6));
      ++count;
      raised += bound > without.bound_seconds(candidate) * (1 + 1e-3) ? 1 : 0;
    }
  }
  CHECK(count > 200);
  CHECK(raised > 20);
}

TEST_CASE("state streams during the backward of units before the first that has any") {
  constexpr Seconds kRead = 0.4, kBackward = 1;
  FewUnits few({unit_of("activation", "activation", {}), block("first"), block("second")}, 0, 0);
  for (UnitCost& cost : few.profile.costs) {
    cost.recompute.seconds = 0;
    if (cost.unit_class == "activation") cost.backward.seconds = kBackward;
  }
  constexpr Bytes kParameters = 4 * kElements;
  few.platform.h2d = {{{kParameters, 0, 0}, {4 * kParameters, kRead, 0}}};  // state and gradient
  few.platform.d2h = few.platform.device_adam = no_time();
  few.candidate.gpu_adam_units = few.candidate.leading_gpu_parameters = 3;
  CHECK(few.refined() >= kBackward);
  CHECK(few.refined() < kBackward + kRead);
  CHECK(few.bound() <= few.refined());
}

TEST_CASE(
    "the cycle from norm to norm holds late updates and all but the forward of units before the "
    "last") {
  constexpr Seconds kForward = 1, kBackward = 0.1, kAdam = 2;
  FewUnits few({block("first"), block("second"), unit_of("last", "head", {32})}, kForward,
               kBackward);
  few.profile.dtype = DataType::BFloat16;
  few.update_in(kAdam);
  few.request.clipping = Clipping::Wait;
  few.candidate.leading_gpu_parameters = 3;
  few.candidate.speculate = true;
  few.candidate.late_updates = 2;
  REQUIRE(few.normal().speculate);
  CHECK_THAT(few.bound(),
             Catch::Matchers::WithinRel(2 * kAdam + 2 * kForward + 3 * kBackward, 1e-3));
  CHECK(few.bound() <= few.refined());
}

TEST_CASE(
    "the forward at the update barrier waits for the CPU's updates, and for copies meanwhile") {
  constexpr Seconds kForward = 1, kBackward = 0.5, kAdam = 2, kCopy = 1;
  FewUnits few({block("first"), block("second"), block("third")}, kForward, kBackward);
  few.platform.device_adam = few.platform.h2d = no_time();
  few.platform.d2h = {{{0, 0, 0}, {4 * kElements, kCopy, 0}}};
  few.update_in(kAdam);
  // Together no faster than one by one.
  few.platform.contention = {{1, {{Lane::CpuAdam, 2}, {Lane::D2H, 2}}}};
  few.candidate.leading_gpu_optimizer = 1;
  few.candidate.leading_gpu_parameters = few.candidate.gradient_buffers = 3;
  const Seconds bound = few.bound();
  // The second unit is the update barrier.
  CHECK_THAT(bound, Catch::Matchers::WithinRel(2 * (kAdam + kCopy) + 2 * kForward, 1e-6));
  // The last unit's backward comes first as well. Nothing runs during its copy, nor during the last
  // update, which has half a second more work than the other.
  CHECK(bound > few.refined());
  CHECK(bound <= few.simulated());
  CHECK(few.simulated() <= bound + kBackward + kCopy);
}

TEST_CASE("the time that a step leaves the CPU for an update does not depend on the CPU") {
  constexpr Seconds kForward = 1, kBackward = 0.5, kCopy = 4, kRounding = 1e-6;
  FewUnits few({block("first"), block("second"), block("third")}, kForward, kBackward);
  few.platform.device_adam = few.platform.h2d = no_time();
  few.platform.d2h = {{{0, 0, 0}, {4 * kElements, kCopy, 0}}};
  few.platform.contention = {{1, {{Lane::CpuAdam, 2}, {Lane::D2H, 2}}}};
  few.candidate.leading_gpu_optimizer = 1;
  few.candidate.leading_gpu_parameters = few.candidate.gradient_buffers = 3;
  // Gradients of the two units on the host are the most that any other lane has to do.
  for (const Seconds update : {0.0, 1.0, 100.0}) {
    few.update_in(update);
    Estimator estimator(few.problem());
    CHECK_THAT(estimator.bound_seconds(few.normal(), SearchLevel::Group),
               Catch::Matchers::WithinRel(2 * kCopy, kRounding));
    CHECK(estimator.host_elements(few.normal()) == 2 * kElements);
  }
  few.candidate.leading_gpu_optimizer = 3;
  CHECK(Estimator(few.problem()).host_elements(few.normal()) == 0);
}

TEST_CASE("the bound of a group holds for any number of threads") {
  // A triple that was measured to contend less than the pair in it: more threads take more away.
  FewUnits few({block("first"), block("second"), block("third")}, 1, 1);
  few.platform.h2d = {{{0, 0, 0}, {4 * kElements, 1, 0}}};
  few.update_in(2);
  few.platform.cpu_adam[2] = {{{0, 0, 0}, {kElements, 1, 0}}};
  few.platform.host_cores = 2;
  few.platform.contention = {
      {1, {{Lane::Compute, 2}, {Lane::H2D, 2}}},
      {1, {{Lane::Compute, 1}, {Lane::H2D, 1}, {Lane::CpuAdam, 1}}},
  };
  few.candidate.sharding = Sharding::Sharded;
  const auto bound = [&](const std::vector<int>& threads) {
    return Estimator(few.problem(), threads).bound_seconds(few.normal(), SearchLevel::Group);
  };
  CHECK(bound({2}) < bound({1}));
  CHECK(bound({1, 2}) == bound({2}));
  CHECK(bound({2, 1}) == bound({2}));
}

TEST_CASE("shared resources raise the bound of one candidate, and not that of its group") {
  // A fetch asks for 1 of 1.2, and a gradient's copy for 0.4 or 0.8, which slows fetches down.
  FewUnits few({block("first"), block("second"), block("third")}, 0, 0);
  few.platform.device_adam = no_time();
  few.update_in(0);
  few.candidate.sharding = Sharding::Sharded;
  few.candidate.gradient_buffers = 3;
  const auto bound = [&](double speed, SearchLevel level) {
    few.platform.h2d = {{{0, 0, 0}, {4 * kElements, 1, 0}}};
    few.platform.d2h = {{{0, 0, 0}, {4 * kElements, 1 / speed, 0}}};
    few.platform.shared = {
        {"link", SharedResource::Scope::Device, 1.2, {{Lane::H2D, 1}, {Lane::D2H, 0.4 * speed}}}};
    return Estimator(few.problem()).bound_seconds(few.normal(), level);
  };
  CHECK(bound(1, SearchLevel::Leaf) > bound(1, SearchLevel::Group));
  CHECK(bound(2, SearchLevel::Leaf) > bound(1, SearchLevel::Leaf));
  CHECK(bound(2, SearchLevel::Group) <= bound(1, SearchLevel::Group));
}

TEST_CASE("with one gradient buffer backward waits for copies to the host") {
  constexpr Seconds kForward = 1, kBackward = 0.5, kCopy = 1;
  FewUnits few({block("first"), block("second"), block("third")}, kForward, kBackward);
  few.platform.h2d = no_time();
  few.platform.d2h = {{{0, 0, 0}, {4 * kElements, kCopy, 0}}};
  few.update_in(0);
  few.platform.contention = {{1, {{Lane::CpuAdam, 2}, {Lane::D2H, 2}}}};
  few.candidate.leading_gpu_parameters = 3;
  // Forward of the first unit is the update barrier. Copies of the other two do not run during
  // backward.
  few.candidate.gradient_buffers = 1;
  CHECK_THAT(few.bound(),
             Catch::Matchers::WithinRel(3 * kForward + 3 * kBackward + 2 * kCopy, 1e-3));
  CHECK(few.bound() <= few.simulated());
  few.candidate.gradient_buffers = 3;
  CHECK_THAT(few.bound(), Catch::Matchers::WithinRel(3 * kForward + 3 * kCopy, 1e-3));
  CHECK(few.bound() <= few.simulated());
}

TEST_CASE("units in slots when the update barrier is passed were fetched before it") {
  constexpr Seconds kLong = 10, kForward = 1, kBackward = 0.1, kFetch = 3, kRounding = 1e-4;
  FewUnits few({unit_of("first", "long", {32}), block("second"), block("third")}, kForward,
               kBackward);
  for (UnitCost& cost : few.profile.costs) {
    if (cost.unit_class == "long") cost.forward_keep.seconds = cost.forward_discard.seconds = kLong;
  }
  few.platform.device_adam = few.platform.d2h = no_time();
  few.platform.h2d = {{{0, 0, 0}, {4 * kElements, kFetch, 0}}};
  few.update_in(0);
  few.candidate.sharding = Sharding::Sharded;
  few.candidate.leading_gpu_optimizer = few.candidate.leading_gpu_parameters = 1;
  few.candidate.cache_slots = 3;
  few.candidate.prefetch_depth = 2;
  CHECK(few.bound() <= few.simulated() * (1 + kRounding));
  CHECK_THAT(few.simulated(),
             Catch::Matchers::WithinRel(kLong + 2 * kForward + 3 * kBackward, kRounding));
}

TEST_CASE("a missing curve is named only where a candidate needs it") {
  Platform platform = test::synthetic_platform(2);
  platform.cpu_adam.clear();
  const Profile profile = test::synthetic_profile(test::small_architecture(3, false), 64, {1});
  const PlanRequest request{.num_gpus = 2, .global_batch = 2};
  Estimator estimator(tuning_problem(profile, platform, request));
  Candidate candidate;
  candidate.sharding = Sharding::Sharded;
  candidate.chunk_elements = 1000;
  candidate.leading_gpu_optimizer = candidate.leading_gpu_parameters = 5;
  CHECK(estimator.bound_seconds(candidate) > 0);
  candidate.leading_gpu_optimizer = 0;
  CHECK_THROWS_WITH(estimator.bound_seconds(candidate),
                    Catch::Matchers::ContainsSubstring("cpu_adam"));
}

}  // namespace athanor
