// SPDX-License-Identifier: Apache-2.0
// Intervals of predictions in closed form.
#include "sim/engine/prediction_interval.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"
#include "tests/engine/programs.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kTenth = 1.2815515655446004;  // standard deviations

}  // namespace

TEST_CASE("an interval bounds a tenth on each side of a normal distribution") {
  const PredictionInterval one = interval_of(2, {{2 * std::exp(-0.1), 2 * std::exp(0.05)}});
  CHECK_THAT(one.p10, WithinRel(2 * std::exp(-0.1 * kTenth), 1e-12));
  CHECK_THAT(one.p90, WithinRel(2 * std::exp(0.05 * kTenth), 1e-12));
  // Independent deviations add up as squares; one that changes nothing adds nothing.
  const PredictionInterval two = interval_of(2, {{2 * std::exp(-0.03), 2 * std::exp(0.03)},
                                                 {2 * std::exp(-0.04), 2 * std::exp(0.04)},
                                                 {2, 2}});
  CHECK_THAT(two.p10, WithinRel(2 * std::exp(-0.05 * kTenth), 1e-12));
  CHECK_THAT(two.p90, WithinRel(2 * std::exp(0.05 * kTenth), 1e-12));
}

TEST_CASE("a deviation that an interval was made from gives the interval back") {
  const PredictionInterval interval = interval_of(3, {deviation_between(2.5, 3, 3.2)});
  CHECK_THAT(interval.p10, WithinRel(2.5, 1e-12));
  CHECK_THAT(interval.p90, WithinRel(3.2, 1e-12));
}

TEST_CASE("operations that scatter without bounds give a wide interval, and no error") {
  test::ProgramBuilder builder(1);
  const auto copy = builder.copy_in(500'000'000);
  const Program& program = builder.program();
  Engine engine(test::plain_platform(), 1);
  const Timeline predicted = engine.simulate(program);
  const auto key = rate_key(program.operations.at(static_cast<std::size_t>(copy)), program);
  const PredictionInterval interval = interval_of(
      predicted.step_seconds, rate_deviations(engine, program, predicted, {{key, 1e5}}, {}));
  CHECK(interval.p10 > 0);
  CHECK(interval.p10 < predicted.step_seconds / 1000);
  CHECK(interval.p90 > 1000 * predicted.step_seconds);
  CHECK(std::isfinite(interval.p90));
}

TEST_CASE("rates deviate lane by lane, as far as the step feels it") {
  // Two seconds of kernels and then one of CPU Adam make a step of three; a copy is hidden.
  test::ProgramBuilder builder(1);
  const auto kernels = builder.compute(2);
  builder.copy_in(500'000'000);
  const auto adam = builder.adam(1'000'000'000, {kernels});
  builder.after_previous(kernels, adam);
  const Program& program = builder.program();
  Engine engine(test::plain_platform(), 1);
  const Timeline predicted = engine.simulate(program);
  REQUIRE_THAT(predicted.step_seconds, WithinRel(3.0, 1e-9));

  const double scatter = 0.2;
  const auto adam_key = rate_key(program.operations.at(static_cast<std::size_t>(adam)), program);
  const auto deviations = rate_deviations(engine, program, predicted, {{adam_key, scatter}}, {});
  REQUIRE(deviations.size() == 5);  // three lanes, launches, the model
  const double of_kernels = drift_of(Lane::Compute);
  const double of_adam = std::hypot(drift_of(Lane::CpuAdam), scatter);
  CHECK_THAT(deviations[0].fast, WithinRel(1 + 2 * std::exp(-of_kernels), 1e-9));
  CHECK_THAT(deviations[0].slow, WithinRel(1 + 2 * std::exp(of_kernels), 1e-9));
  CHECK_THAT(deviations[1].slow, WithinRel(3.0, 1e-9));
  CHECK_THAT(deviations[2].fast, WithinRel(2 + std::exp(-of_adam), 1e-9));
  CHECK_THAT(deviations[2].slow, WithinRel(2 + std::exp(of_adam), 1e-9));
  CHECK_THAT(deviations[3].slow, WithinRel(3.0, 1e-9));
  CHECK_THAT(deviations[4].slow, WithinRel(3 * std::exp(kModelSpread), 1e-9));

  // Borrowed rates are a part more, of lanes by data sheets and of kernels by scaling.
  const BorrowedRates both{.kernels = true, .lanes = true};
  const auto borrowed = rate_deviations(engine, program, predicted, {}, {}, both);
  REQUIRE(borrowed.size() == 5);
  const double kernels_spread =
      std::hypot(of_kernels, borrowed_spread(Lane::Compute, {.lanes = true}),
                 borrowed_spread(Lane::Compute, {.kernels = true}));
  const double adam_spread =
      std::hypot(drift_of(Lane::CpuAdam), borrowed_spread(Lane::CpuAdam, {.lanes = true}));
  CHECK_THAT(borrowed[0].slow, WithinRel(1 + 2 * std::exp(kernels_spread), 1e-9));
  CHECK_THAT(borrowed[2].slow, WithinRel(2 + std::exp(adam_spread), 1e-9));
  CHECK_THAT(borrowed[2].fast, WithinRel(2 + std::exp(-adam_spread), 1e-9));
  CHECK(borrowed_spread(Lane::CpuAdam, {.kernels = true}) == 0);
  CHECK(borrowed_launch_spread({.kernels = true}) == 0);

  // A pooled rate has its own spread in place of the drift.
  Platform pooled;
  pooled.pooled[Lane::CpuAdam].spread = 0.5;
  const auto surer = rate_deviations(engine, program, predicted, {}, pooled);
  CHECK_THAT(surer[0].slow, WithinRel(1 + 2 * std::exp(of_kernels), 1e-9));
  CHECK_THAT(surer[2].slow, WithinRel(2 + std::exp(0.5), 1e-9));
}

}  // namespace athanor
