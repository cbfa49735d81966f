// SPDX-License-Identifier: Apache-2.0
// The tuner lets tokens travel where that is faster, and weights where it is not.
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/language_models.hpp"
#include "sim/model/memory.hpp"
#include "sim/patterns/tokens_travel.hpp"
#include "sim/search/search.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>

namespace athanor {
namespace {

constexpr std::int64_t kSequence = 16, kCapacity = 32;

Architecture mixture() {
  LanguageModelConfig config;
  config.model_type = "qwen3_moe";
  config.vocab_size = 64;
  config.hidden_size = 64;
  config.num_layers = 2;
  config.num_heads = config.num_kv_heads = 2;
  config.head_dim = 32;
  config.intermediate_size = 64;
  config.max_positions = kSequence;
  config.activation = "silu";
  config.experts = {.number = 16,
                    .per_token = 2,
                    .intermediate_size = 64,
                    .normalized = true,
                    .dense_blocks = {}};
  return make_architecture("mixture", config, Blocks::Split);
}

/// A third of the phase each, and as much memory as the whole unit.
StagedPhase thirds(const PhaseCost& whole, Bytes held) {
  StagedPhase phase;
  for (int stage = 0; stage < 3; ++stage) {
    PhaseCost cost = whole;
    cost.seconds /= 3;
    cost.peak_bytes += held;
    phase.stages.push_back(cost);
  }
  phase.held = {held, held};
  return phase;
}

Profile profile_for(int ranks) {
  Profile profile = test::synthetic_profile(mixture(), kSequence, {1});
  for (UnitCost& cost : profile.costs) {
    if (cost.unit_class != "experts") continue;
    StagedCost staged;
    staged.pattern = tokens_travel().name();
    staged.world_size = ranks;
    staged.capacity = kCapacity;
    staged.output_bytes = cost.output_bytes;
    staged.saved_bytes = cost.saved_bytes;
    staged.grad_input_bytes = cost.grad_input_bytes;
    const Bytes held = cost.saved_bytes;
    staged.forward_keep = thirds(cost.forward_keep, held);
    staged.forward_discard = thirds(cost.forward_discard, held);
    staged.recompute = thirds(cost.recompute, held);
    staged.backward = thirds(cost.backward, held);
    cost.staged.push_back(staged);
  }
  return profile;
}

/// Takes `factor` times as long for collectives of the kind.
void slow_down(std::vector<CollectiveCurve>& curves, double factor) {
  for (CollectiveCurve& each : curves) {
    for (Curve::Point& point : each.curve.points) point.seconds *= factor;
  }
}

bool lets_tokens_travel(const Plan& plan) {
  return std::ranges::any_of(plan.units,
                             [](const UnitPlan& unit) { return unit.pattern == &tokens_travel(); });
}

}  // namespace

TEST_CASE("tokens travel where that is faster, and only there") {
  const Profile profile = profile_for(2);
  Platform platform = test::synthetic_platform(2);
  platform.all_to_all = platform.all_gather;
  const PlanRequest request{.num_gpus = 2, .global_batch = 4};
  const auto tune = [&](double weights, double tokens) {
    Platform machine = platform;
    slow_down(machine.all_gather, weights);
    slow_down(machine.reduce_scatter, weights);
    slow_down(machine.all_reduce, weights);
    slow_down(machine.all_to_all, tokens);
    Engine engine(machine, 2);
    const TuningProblem problem = tuning_problem(profile, machine, request);
    SearchResult result =
        search(problem, engine, default_search_space(problem), {.keep = 3, .workers = 1});
    REQUIRE(result.travel);
    CHECK(result.travel->num_plans > 20);
    CHECK(lets_tokens_travel(result.best) == result.travel->best.has_value());
    // The prediction is that of the plan, lowered and simulated again.
    const Program program = lower(profile, result.best);
    CHECK(engine.simulate(program, {.record_intervals = false}).step_seconds ==
          result.best.prediction->step_seconds);
    CHECK(peak_bytes(program).gpu == result.best.prediction->peak_bytes.gpu);
    CHECK(result.best.prediction->step_seconds <= result.ranked.front().step_seconds);
    return lets_tokens_travel(result.best);
  };
  CHECK(tune(100, 1));
  CHECK_FALSE(tune(1, 1000));
}

TEST_CASE("either pattern can be asked for alone") {
  const Profile profile = profile_for(2);
  const Platform platform = test::synthetic_platform(2);
  Engine engine(platform, 2);
  const TuningProblem problem =
      tuning_problem(profile, platform, {.num_gpus = 2, .global_batch = 4});
  const auto best = [&](TriedPatterns patterns) {
    return search(problem, engine, default_search_space(problem),
                  {.keep = 1, .workers = 1, .patterns = patterns})
        .best;
  };
  const Plan weights = best(TriedPatterns::Weights), tokens = best(TriedPatterns::Tokens);
  CHECK_FALSE(lets_tokens_travel(weights));
  CHECK(lets_tokens_travel(tokens));
  CHECK(best(TriedPatterns::All).prediction->step_seconds ==
        std::min(weights.prediction->step_seconds, tokens.prediction->step_seconds));
  const Profile without = test::synthetic_profile(mixture(), kSequence, {1});
  const TuningProblem other = tuning_problem(without, platform, {.num_gpus = 2, .global_batch = 4});
  CHECK_THROWS_AS(search(other, engine, default_search_space(other),
                         {.keep = 1, .workers = 1, .patterns = TriedPatterns::Tokens}),
                  InputError);
}

TEST_CASE("without costs of tokens that travel between so many ranks they are not tried") {
  const Profile profile = profile_for(4);
  const Platform platform = test::synthetic_platform(4);
  const auto problem = [&](const PlanRequest& request) {
    return tuning_problem(profile, platform, request);
  };
  CHECK(can_let_tokens_travel(problem({.num_gpus = 4, .global_batch = 4})));
  CHECK_FALSE(can_let_tokens_travel(problem({.num_gpus = 2, .global_batch = 4})));
  PlanRequest snapshots{.num_gpus = 4, .global_batch = 4};
  snapshots.snapshot = Snapshot::Redo;
  CHECK_FALSE(can_let_tokens_travel(problem(snapshots)));
}

}  // namespace athanor
