// SPDX-License-Identifier: Apache-2.0
// Problems and candidates on which the closed forms of the search are tested.
#pragma once

#include "sim/bounds/bounds.hpp"
#include "sim/cost/scaling.hpp"
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "sim/search/space/normal_form.hpp"
#include "tests/search/random_spaces.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace athanor::test {

/// In every fourth a unit without parameters comes second. In every fifth blocks are two units in
/// turn.
inline Architecture architecture_of(int round) {
  Architecture architecture = small_architecture(2 + round % 4, round % 2 == 0);
  if (round % 5 == 4) architecture = with_split_blocks(architecture);
  if (round % 4 == 3) {
    architecture.units.insert(architecture.units.begin() + 1, {"activation", "activation", {}, {}});
  }
  return architecture;
}

/// One model on 1, 2 or 4 GPUs, everything else at random.
struct Case {
  Case(std::mt19937& random, int round)
      : platform(synthetic_platform(4)),
        profile(synthetic_profile(architecture_of(round), 64, {1, 2, 4})),
        request{.num_gpus = 1 << (round % 3), .global_batch = 4 << (round % 3)} {
    if (round % 3 != 0) request.clipping = Clipping::Wait;
    if (round % 4 < 2) profile.dtype = DataType::BFloat16;
    if (round % 7 == 5) request.adam_state = AdamState::BFloat16;
    if (round % 7 == 3) request.adam_state = AdamState::Int8;
    request.clipped_share = 0.1 * (round % 11);
    profile.workspace_bytes = 100 * (round % 2);
    if (round % 3 == 0) {
      std::uniform_real_distribution<double> micro(0, 1e-5);
      platform.issue = {{Lane::Compute, micro(random)}, {Lane::Collective, micro(random)}};
      for (UnitCost& cost : profile.costs) cost.forward_keep.issue_seconds = micro(random);
    }
    if (round % 2 == 1) limit_power(random, platform, profile);
    if (round % 5 == 2) {  // phases that take less time, and memory of their own
      request.cuda_graphs = CudaGraphs::On;
      for (UnitCost& cost : profile.costs) {
        for (std::size_t phase = 0; phase < kUnitPhases.size(); ++phase) {
          for (PhaseCost* const launched : costs_of_phase(cost, phase)) {
            launched->replay =
                ReplayCost{0.9 * launched->seconds, 0.1 * launched->issue_seconds, 1 << 20};
          }
        }
      }
    }
    if (round % 6 == 4) {  // backward that takes less of everything
      request.deterministic = false;
      for (UnitCost& cost : profile.costs) {
        PhaseCost& fastest = cost.nondeterministic_backward.emplace(cost.backward);
        fastest.seconds *= 0.7;
        fastest.unthrottled_seconds *= 0.7;
        fastest.peak_bytes /= 2;
      }
    }
    if (round % 5 > 2) {  // slow updates, which a micro-batch does not hide
      platform = with_host_update_slowdown(platform, 1 << (1 + round % 6));
      std::erase_if(platform.shared, [](const auto& shared) { return shared.name != "nvme"; });
      platform.contention.push_back({1, {{Lane::CpuAdam, 3}, {Lane::D2H, 20}}});
      platform.contention.push_back({1, {{Lane::CpuAdam, 3}, {Lane::H2D, 20}}});
    }
  }

  Platform platform;
  Profile profile;
  PlanRequest request;
};

/// Groups of micro-batches, as long as gradient buffers hold what a unit borrows.
inline void group_micro_batches(std::mt19937& random, Candidate& candidate,
                                const Architecture& architecture) {
  const bool borrows = !architecture.units.back().borrows.empty();
  const std::int64_t most = borrows ? candidate.gradient_buffers : candidate.batch.accumulation;
  candidate.batch.group = pick(random, std::vector<std::int64_t>{1, 2, 4});
  candidate.batch.group = std::min({candidate.batch.group, candidate.batch.accumulation,
                                    std::max<std::int64_t>(1, most / 2 * 2)});
}

inline const std::vector<int> kThreads{1, 2, 4};  ///< that a synthetic platform has curves of

/// Requires that memory and bound of a group hold for `candidate`, one of its members.
inline void require_least_of_group(std::mt19937& random, Estimator& estimator,
                                   const Candidate& candidate, const TierBytes& peak,
                                   Seconds simulated) {
  Candidate least = candidate;
  least.late_updates = 0;
  least.speculate = false;
  REQUIRE(estimator.bound_seconds(least, SearchLevel::Subgroup) <= simulated * (1 + 1e-6));
  least.adam_threads = pick(random, kThreads);
  least.gpu_adam_units = 0;
  REQUIRE(estimator.bound_seconds(least, SearchLevel::Group) <= simulated * (1 + 1e-6));
  const TierBytes representative = estimator.peak_bytes(least);
  // A ring of more bytes than all gradients is no use, and some members have fewer of them.
  Candidate without_ring = least;
  without_ring.gradient_ring = 0;
  if (estimator.peak_bytes(without_ring).pinned <= representative.pinned &&
      candidate.gradient_ring > 0) {
    return;
  }
  REQUIRE(representative.gpu <= peak.gpu);
  REQUIRE(representative.nvme <= peak.nvme);
  REQUIRE(representative.pinned <= peak.pinned);
  REQUIRE(representative.pinned + representative.host <= peak.pinned + peak.host);
}

inline constexpr Bytes kElements = 64 * 64;

inline Unit unit_of(const std::string& name, const std::string& unit_class,
                    std::vector<std::int64_t> shape) {
  Unit unit;
  unit.name = name;
  unit.unit_class = unit_class;
  if (!shape.empty()) unit.parameters = {{"weight", std::move(shape)}};
  return unit;
}
inline Unit block(const std::string& name) { return unit_of(name, "block", {64, 64}); }

/// One candidate of a model with few units, on one device that shares nothing.
struct FewUnits {
  FewUnits(std::vector<Unit> units, Seconds forward, Seconds backward) {
    architecture.name = "few units";
    architecture.units = std::move(units);
    profile = synthetic_profile(architecture, 64, {1});
    for (UnitCost& cost : profile.costs) {
      cost.forward_keep.seconds = cost.forward_discard.seconds = forward;
      cost.backward.seconds = backward;
    }
    platform.shared.clear();
    candidate.batch = {1, 1};
    candidate.chunk_elements = kElements;
  }

  /// CPU Adam of a block.
  void update_in(Seconds seconds) {
    platform.cpu_adam = {{1, {{{0, 0, 0}, {kElements, seconds, 0}}}}};
    platform.cpu_adam_beside = platform.cpu_adam;
  }
  [[nodiscard]] Candidate normal() const { return normal_form(candidate, architecture, 1); }
  [[nodiscard]] Program program() const {
    return lower(profile, make_plan(normal(), profile, request));
  }
  [[nodiscard]] TuningProblem problem() const { return tuning_problem(profile, platform, request); }
  [[nodiscard]] Seconds bound() const { return Estimator(problem()).bound_seconds(normal()); }
  [[nodiscard]] Seconds refined() const { return lower_bound_seconds(program(), platform); }
  [[nodiscard]] Seconds simulated() const {
    return Engine(platform, 1).simulate(program()).step_seconds;
  }

  Architecture architecture;
  Profile profile;
  Platform platform = synthetic_platform(1);
  PlanRequest request{.num_gpus = 1, .global_batch = 1};
  Candidate candidate;
};

inline Curve no_time() { return {{{0, 0, 0}, {1, 0, 0}}}; }

}  // namespace athanor::test
