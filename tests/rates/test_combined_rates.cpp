// SPDX-License-Identifier: Apache-2.0
// Closed forms of how a calibration's rates and a run's are combined.
#include "sim/formats/hf_config.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/model/program.hpp"
#include "sim/policy/policies.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/combined_rates.hpp"
#include "sim/rates/measure_rates.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <map>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kExact = 1e-12;

/// A step with one Adam of a thousand elements on the CPU.
Program one_update() {
  Operation op;
  op.kind = OpKind::Adam;
  op.lane = Lane::CpuAdam;
  op.elements = 1000;
  Program program;
  program.operations.push_back(op);
  return program;
}

}  // namespace

TEST_CASE("a rate's weight is that of inverse variances") {
  // Variances 9 and 16 of 25: the more certain one has 16/25.
  const RateEvidence evidence{.repetition = 0, .drift = 0.4, .count = 10, .measured = 0.3};
  CHECK_THAT(evidence.calibrated_spread(), WithinRel(0.4, kExact));
  CHECK_THAT(evidence.measured_spread(), WithinRel(0.3, kExact));
  CHECK_THAT(evidence.weight(), WithinRel(16.0 / 25, kExact));
  const double precise = 1 / (0.3 * 0.3), vague = 1 / (0.4 * 0.4);
  CHECK_THAT(evidence.weight(), WithinRel(precise / (precise + vague), kExact));
}

TEST_CASE("the calibration's uncertainty is its repetitions' and the drift's together") {
  const RateEvidence evidence{.repetition = 0.03, .drift = 0.04, .count = 1, .measured = 0.05};
  CHECK_THAT(evidence.calibrated_spread(), WithinRel(0.05, kExact));
  CHECK_THAT(evidence.weight(), WithinRel(0.5, kExact));
}

TEST_CASE("few steps that agree by chance are no surer than repetitions of the calibration") {
  RateEvidence evidence{.repetition = 0.2, .drift = 0, .count = 4, .measured = 0};
  CHECK_THAT(evidence.measured_spread(), WithinRel(0.1, kExact));
  CHECK_THAT(evidence.weight(), WithinRel(0.8, kExact));  // 0.04 / (0.04 + 0.01)
  evidence.count = 16;
  CHECK_THAT(evidence.weight(), WithinRel(16.0 / 17, kExact));
}

TEST_CASE("a rate from few scattered operations counts less than a sure calibration") {
  const RateEvidence scattered{.repetition = 0.01, .drift = 0.039, .count = 2, .measured = 0.2};
  CHECK(scattered.weight() < 0.05);
  const RateEvidence steady{.repetition = 0.01, .drift = 0.039, .count = 64, .measured = 0.002};
  CHECK(steady.weight() > 0.99);
}

TEST_CASE("a deviation that no spread explains is a change of the machine") {
  // 0.25 = 0.5^2, of which 0.09 and 0.01 are explained: 0.15 of 0.16 + 0.09 is left to the machine.
  const RateEvidence changed{
      .repetition = 0.1, .drift = 0.04, .deviation = -0.5, .count = 10, .measured = 0.3};
  CHECK_THAT(changed.calibrated_spread(), WithinRel(std::sqrt(0.01 + 0.15), kExact));
  CHECK_THAT(changed.weight(), WithinRel(0.16 / 0.25, kExact));
  const RateEvidence sure{
      .repetition = 0.01, .drift = 0.04, .deviation = 0.5, .count = 10, .measured = 0.02};
  CHECK(sure.weight() > 0.99);
  // A deviation of operations that are as scattered says little.
  const RateEvidence scattered{
      .repetition = 0.01, .drift = 0.04, .deviation = 0.5, .count = 10, .measured = 0.5};
  CHECK(scattered.weight() < 0.01);
}

TEST_CASE("nothing measured weighs nothing, and one step as much as the calibration") {
  CHECK(RateEvidence{.repetition = 0.1, .drift = 0.1, .count = 0}.weight() == 0);
  CHECK_THAT((RateEvidence{.repetition = 0.1, .drift = 0.1, .count = 3}.weight()),
             WithinRel(0.5, kExact));
  CHECK(RateEvidence{.repetition = 0, .drift = 0, .count = 3, .measured = 0}.weight() == 1);
}

TEST_CASE("the mean of two rates is that of their logarithms") {
  CHECK_THAT(combined_seconds(1, 4, 0.5), WithinRel(2.0, kExact));
  CHECK_THAT(combined_seconds(4, 1, 0.5), WithinRel(2.0, kExact));
  CHECK(combined_seconds(3, 5, 0) == 3);
  CHECK_THAT(combined_seconds(3, 5, 1), WithinRel(5.0, kExact));
}

TEST_CASE("rates of a run are combined key by key") {
  const Program program = one_update();
  const RateKey adam{.kind = OpKind::Adam, .lane = Lane::CpuAdam};
  MeasuredRates predicted, measured;
  predicted.rates[adam] = {.count = 1, .seconds = 1};
  measured.first_step = 2;
  measured.last_step = 3;
  measured.rates[adam] = {.count = 1, .seconds = 4, .spread = std::log(4) / 2};
  measured.rates[{.kind = OpKind::Fetch, .lane = Lane::H2D}] = {.count = 1, .seconds = 1};
  measured.launches = MeasuredLaunches{.count = 2, .seconds = 9, .calibrated = 1, .spread = 0};
  const CombinedRates combined = combine_rates(program, predicted, measured, {}, {});
  REQUIRE(combined.rates.size() == 1);  // nothing was predicted of the other
  CHECK(combined.rates[0].key == adam);
  CHECK(combined.rates[0].amount == 1000);
  CHECK_THAT(combined.rates[0].weight, WithinRel(0.75, kExact));  // by the deviation: 3 parts of 4
  CHECK_THAT(combined.rates[0].combined, WithinRel(std::pow(4, 0.75), kExact));
  REQUIRE(combined.launches);
  CHECK_THAT(combined.launches->combined, WithinRel(9.0, kExact));
  CHECK_THAT(combined.launches->calibrated_spread, WithinRel(std::log(9), kExact));
}

TEST_CASE("repetitions of the calibration are as spread as platform and profile record") {
  constexpr double kPhases = 0.02, kAdam = 0.1;
  Platform platform = test::synthetic_platform(1);
  Profile profile = test::synthetic_profile(load_architecture("gpt2-tiny"), 128, {1});
  for (UnitCost& cost : profile.costs) {
    for (PhaseCost UnitCost::* phase : kUnitPhases) {
      (cost.*phase).spread = kPhases * (cost.*phase).seconds;
    }
  }
  for (auto& [threads, curve] : platform.cpu_adam) {
    for (Curve::Point& point : curve.points) point.spread = kAdam * point.seconds;
  }
  for (Curve::Point& point : platform.h2d.points) point.spread = 0;
  const Plan plan =
      make_policy_plan("zero3-offload", profile, platform, {.num_gpus = 1, .global_batch = 2});
  const std::map<RateKey, double> spreads =
      repetition_spreads(lower(profile, plan), profile, plan, platform);
  int phases = 0, updates = 0;
  for (const auto& [key, spread] : spreads) {
    INFO(rate_name(key));
    if (!key.unit_class.empty()) {
      CHECK_THAT(spread, WithinRel(kPhases / kQuartiles, 1e-9));
      ++phases;
    } else if (key.lane == Lane::CpuAdam && key.kind == OpKind::Adam) {
      CHECK_THAT(spread, WithinRel(kAdam / kQuartiles, 1e-9));
      ++updates;
    } else if (key.lane == Lane::H2D) {
      CHECK(spread == 0);
    }
  }
  CHECK(phases >= 4);
  CHECK(updates == 1);
}

}  // namespace athanor
