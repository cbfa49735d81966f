// SPDX-License-Identifier: Apache-2.0
#include "executor/train/lr_schedule.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <limits>

using namespace athanor;
using Catch::Matchers::WithinRel;

TEST_CASE("warm-up rises to the peak, and the decay ends at the minimum") {
  for (const Decay decay : {Decay::Linear, Decay::Cosine}) {
    const LearningRateSchedule schedule{
        .peak = 1.0, .minimum = 0.1, .warmup_steps = 3, .total_steps = 13, .decay = decay};
    CHECK_THAT(schedule.at(0), WithinRel(0.25));
    CHECK_THAT(schedule.at(2), WithinRel(0.75));
    CHECK_THAT(schedule.at(3), WithinRel(1.0));
    CHECK_THAT(schedule.at(8), WithinRel(0.55));  // half-way: the middle, for both
    CHECK_THAT(schedule.at(13), WithinRel(0.1));
    CHECK_THAT(schedule.at(1000), WithinRel(0.1));
  }
  const LearningRateSchedule constant{.peak = 2.0, .total_steps = 5, .decay = Decay::Constant};
  CHECK(constant.at(0) == 2.0);
  CHECK(constant.at(100) == 2.0);
}

TEST_CASE("impossible schedules are refused by option") {
  CHECK_THROWS_AS(parse_decay("step"), InputError);
  CHECK_THROWS_AS((LearningRateSchedule{.peak = -1}.validate()), InputError);
  CHECK_THROWS_AS((LearningRateSchedule{.peak = 1, .minimum = 2}.validate()), InputError);
  CHECK_THROWS_AS(
      (LearningRateSchedule{.peak = std::numeric_limits<double>::quiet_NaN()}.validate()),
      InputError);
  CHECK_THROWS_AS((LearningRateSchedule{.warmup_steps = -1}.validate()), InputError);
}
