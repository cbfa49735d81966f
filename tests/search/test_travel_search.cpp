// SPDX-License-Identifier: Apache-2.0
// The tuner lets tokens travel where that is faster, and weights where it is not.
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/memory.hpp"
#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"
#include "sim/search/search.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

namespace athanor {
namespace {

/// Takes `factor` times as long for collectives of the kind.
void slow_down(std::vector<CollectiveCurve>& curves, double factor) {
  for (CollectiveCurve& each : curves) {
    for (Curve::Point& point : each.curve.points) point.seconds *= factor;
  }
}

bool lets_tokens_travel(const Plan& plan) { return num_travelling_units(plan) > 0; }

}  // namespace

TEST_CASE("tokens travel where that is faster, and only there") {
  const Profile profile = test::mixture_profile(2);
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
  const Profile profile = test::mixture_profile(2);
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
  const Profile without = test::synthetic_profile(test::split_mixture(64, 16, 64), 16, {1});
  const TuningProblem other = tuning_problem(without, platform, {.num_gpus = 2, .global_batch = 4});
  CHECK_THROWS_AS(search(other, engine, default_search_space(other),
                         {.keep = 1, .workers = 1, .patterns = TriedPatterns::Tokens}),
                  InputError);
}

TEST_CASE("without costs of tokens that travel between so many ranks they are not tried") {
  const Profile profile = test::mixture_profile(4);
  const Platform platform = test::synthetic_platform(4);
  const auto problem = [&](const PlanRequest& request) {
    return tuning_problem(profile, platform, request);
  };
  CHECK(can_have(problem({.num_gpus = 4, .global_batch = 4}), tokens_travel()));
  CHECK_FALSE(can_have(problem({.num_gpus = 2, .global_batch = 4}), tokens_travel()));
  PlanRequest snapshots{.num_gpus = 4, .global_batch = 4};
  snapshots.snapshot = Snapshot::Redo;
  CHECK_FALSE(can_have(problem(snapshots), tokens_travel()));
}

TEST_CASE("tensors are split where that is faster, asked for or not, and not without costs") {
  const Profile profile = test::split_tensors_profile(2);
  Platform platform = test::synthetic_platform(2);
  const PlanRequest request{.num_gpus = 2, .global_batch = 4};
  const auto tune = [&](const Profile& of, double weights, TriedPatterns patterns) {
    Platform machine = platform;
    slow_down(machine.all_reduce, weights);
    Engine engine(machine, 2);
    const TuningProblem problem = tuning_problem(of, machine, request);
    const SearchResult result = search(problem, engine, default_search_space(problem),
                                       {.keep = 1, .workers = 1, .patterns = patterns});
    if (result.travel) CHECK(result.travel->pattern == &tensors_split());
    for (std::size_t u = 0; u < result.best.units.size(); ++u) {
      const bool can = has_tensors_to_split(of.architecture, of.architecture.units[u]);
      const bool splits = result.best.units[u].pattern == &tensors_split();
      CHECK(splits == (can && num_travelling_units(result.best) > 0));
    }
    const Program program = lower(of, result.best);
    CHECK(engine.simulate(program, {.record_intervals = false}).step_seconds ==
          result.best.prediction->step_seconds);
    return result.best.prediction->step_seconds;
  };
  const Seconds weights = tune(profile, 1, TriedPatterns::Weights);
  const Seconds tensors = tune(profile, 1, TriedPatterns::Tensors);
  CHECK(tune(profile, 1, TriedPatterns::All) == std::min(weights, tensors));
  Profile without = profile;
  for (UnitCost& cost : without.costs) cost.staged.clear();
  CHECK(tune(without, 1, TriedPatterns::All) == weights);
  CHECK_THROWS_AS(tune(without, 1, TriedPatterns::Tensors), InputError);
  CHECK_THROWS_AS(tune(profile, 1, TriedPatterns::Tokens), InputError);
}

}  // namespace athanor
