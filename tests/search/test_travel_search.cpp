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
#include <vector>

namespace athanor {
namespace {

/// Takes `factor` times as long for collectives of the kind.
void slow_down(std::vector<CollectiveCurve>& curves, double factor) {
  for (CollectiveCurve& each : curves) {
    for (Curve::Point& point : each.curve.points) point.seconds *= factor;
  }
}

using Patterns = std::vector<const UnitPattern*>;
const Patterns kWeights{&weights_travel()}, kTokens{&tokens_travel()}, kTensors{&tensors_split()};

/// A pattern of the test's own, for experts. It does nothing.
class NothingTravels final : public UnitPattern {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "nothing"; }
  [[nodiscard]] std::string_view phrase() const noexcept override { return "nothing travels"; }
  [[nodiscard]] bool suits(const Architecture& /*architecture*/, const Unit& unit) const override {
    return unit.unit_class == "experts";
  }
  [[nodiscard]] bool divides(const Architecture& /*architecture*/, const Unit& /*unit*/,
                             int ranks) const override {
    return ranks == 2;
  }
};

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
    REQUIRE(result.travel.size() == 1);
    CHECK(result.travel[0].num_plans > 20);
    CHECK(lets_tokens_travel(result.best) == result.travel[0].best.has_value());
    CHECK(result.travel_wins == lets_tokens_travel(result.best));
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
  const auto best = [&](const Patterns& patterns) {
    return search(problem, engine, default_search_space(problem),
                  {.keep = 1, .workers = 1, .patterns = patterns})
        .best;
  };
  const Plan weights = best(kWeights), tokens = best(kTokens);
  CHECK_FALSE(lets_tokens_travel(weights));
  CHECK(lets_tokens_travel(tokens));
  CHECK(best(all_patterns()).prediction->step_seconds ==
        std::min(weights.prediction->step_seconds, tokens.prediction->step_seconds));
  const Profile without = test::synthetic_profile(test::split_mixture(64, 16, 64), 16, {1});
  const TuningProblem other = tuning_problem(without, platform, {.num_gpus = 2, .global_batch = 4});
  CHECK_THROWS_AS(search(other, engine, default_search_space(other),
                         {.keep = 1, .workers = 1, .patterns = kTokens}),
                  InputError);
}

TEST_CASE("without costs of tokens that travel between so many ranks they are not tried") {
  const Profile profile = test::mixture_profile(4);
  const Platform platform = test::synthetic_platform(4);
  const auto problem = [&](const PlanRequest& request) {
    return tuning_problem(profile, platform, request);
  };
  const std::vector<PatternMix> mixes =
      possible_mixes(problem({.num_gpus = 4, .global_batch = 4}), all_patterns());
  CHECK(mixes == std::vector<PatternMix>{{{"experts", &tokens_travel()}}});
  CHECK(possible_mixes(problem({.num_gpus = 2, .global_batch = 4}), all_patterns()).empty());
  PlanRequest snapshots{.num_gpus = 4, .global_batch = 4};
  snapshots.snapshot = Snapshot::Redo;
  CHECK(possible_mixes(problem(snapshots), all_patterns()).empty());
}

TEST_CASE(
    "a new pattern is offered for the units that it suits, between ranks that it divides by") {
  const Profile profile = test::mixture_profile(2);
  const NothingTravels nothing;
  const Patterns patterns{&weights_travel(), &nothing};
  const auto problem = [&](const Platform& platform, int ranks) {
    return tuning_problem(profile, platform, {.num_gpus = ranks, .global_batch = 4});
  };
  const Platform two = test::synthetic_platform(2), four = test::synthetic_platform(4);
  CHECK(possible_mixes(problem(two, 2), patterns) ==
        std::vector<PatternMix>{{{"experts", &nothing}}});
  CHECK(possible_mixes(problem(four, 4), patterns).empty());

  Engine engine(two, 2);
  const TuningProblem tuned = problem(two, 2);
  const SearchResult result = search(tuned, engine, default_search_space(tuned),
                                     {.keep = 1, .workers = 1, .patterns = {&nothing}});
  CHECK(result.travel_wins);
  for (std::size_t u = 0; u < result.best.units.size(); ++u) {
    const bool is_experts = profile.architecture.units[u].unit_class == "experts";
    CHECK(result.best.units[u].pattern == (is_experts ? &nothing : &weights_travel()));
  }
  CHECK(lower(profile, result.best).operations.size() > 0);
}

TEST_CASE(
    "every mix of patterns that suit a model's classes is tried, and a mix can be asked for") {
  const Profile profile = test::mixed_patterns_profile(2);
  const Platform platform = test::synthetic_platform(2);
  const TuningProblem problem =
      tuning_problem(profile, platform, {.num_gpus = 2, .global_batch = 4});
  const PatternMix both{{"attention", &tensors_split()}, {"experts", &tokens_travel()}};
  const std::vector<PatternMix> mixes = possible_mixes(problem, all_patterns());
  REQUIRE(mixes.size() == 3);
  CHECK(std::ranges::count(mixes, PatternMix{{"attention", &tensors_split()}}) == 1);
  CHECK(std::ranges::count(mixes, PatternMix{{"experts", &tokens_travel()}}) == 1);
  CHECK(mixes.back() == both);
  CHECK(possible_mixes(problem, kTokens) ==
        std::vector<PatternMix>{{{"experts", &tokens_travel()}}});

  Engine engine(platform, 2);
  const auto tune = [&](const SearchOptions& options) {
    return search(problem, engine, default_search_space(problem), options);
  };
  const SearchResult all = tune({.keep = 1, .workers = 1});
  CHECK(all.travel.size() == 3);
  const Plan mixed = tune({.keep = 1, .workers = 1, .mix = both}).best;
  CHECK(mix_of(mixed, profile.architecture) == both);
  CHECK(all.best.prediction->step_seconds <= mixed.prediction->step_seconds);
  const Program program = lower(profile, mixed);
  CHECK(peak_bytes(program).gpu == mixed.prediction->peak_bytes.gpu);
  const auto of_kind = [&](OpKind kind) {
    return std::ranges::count(program.operations, kind, &Operation::kind);
  };
  CHECK(of_kind(OpKind::Dispatch) > 0);
  CHECK(of_kind(OpKind::ActivationGather) > 0);
  CHECK_FALSE(lets_tokens_travel(tune({.keep = 1, .workers = 1, .mix = PatternMix()}).best));
}

TEST_CASE("tensors are split where that is faster, asked for or not, and not without costs") {
  const Profile profile = test::split_tensors_profile(2);
  Platform platform = test::synthetic_platform(2);
  const PlanRequest request{.num_gpus = 2, .global_batch = 4};
  const auto tune = [&](const Profile& of, double weights, const Patterns& patterns) {
    Platform machine = platform;
    slow_down(machine.all_reduce, weights);
    Engine engine(machine, 2);
    const TuningProblem problem = tuning_problem(of, machine, request);
    const SearchResult result = search(problem, engine, default_search_space(problem),
                                       {.keep = 1, .workers = 1, .patterns = patterns});
    for (const TravelSearch& travel : result.travel) CHECK(travel.patterns == kTensors);
    for (std::size_t u = 0; u < result.best.units.size(); ++u) {
      const bool can = has_tensors_to_split(of.architecture, of.architecture.units[u]);
      if (!can) CHECK(result.best.units[u].pattern == &weights_travel());
    }
    const Program program = lower(of, result.best);
    CHECK(engine.simulate(program, {.record_intervals = false}).step_seconds ==
          result.best.prediction->step_seconds);
    return result.best.prediction->step_seconds;
  };
  const Seconds weights = tune(profile, 1, kWeights);
  const Seconds tensors = tune(profile, 1, kTensors);
  CHECK(tune(profile, 1, all_patterns()) == std::min(weights, tensors));
  Profile without = profile;
  for (UnitCost& cost : without.costs) cost.staged.clear();
  CHECK(tune(without, 1, all_patterns()) == weights);
  CHECK_THROWS_AS(tune(without, 1, kTensors), InputError);
  CHECK_THROWS_AS(tune(profile, 1, kTokens), InputError);
}

}  // namespace athanor
