// SPDX-License-Identifier: Apache-2.0
// Closed forms of the rates of a timeline.
#include "sim/model/timeline.hpp"
#include "sim/rates/measure_rates.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <map>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr double kExact = 1e-12;
const RateKey kCopy{.kind = OpKind::Fetch, .lane = Lane::H2D};
const RateKey kGather{.kind = OpKind::Gather, .lane = Lane::Collective};

Operation operation(OpKind kind, Lane lane) {
  Operation op;
  op.kind = kind;
  op.lane = lane;
  return op;
}

/// A step of two copies and a gather.
Program sample_program() {
  Program program;
  program.world_size = 2;
  program.operations = {operation(OpKind::Fetch, Lane::H2D), operation(OpKind::Fetch, Lane::H2D),
                        operation(OpKind::Gather, Lane::Collective)};
  return program;
}

void add(Timeline& timeline, std::int32_t operation, std::int32_t rank, std::int32_t step,
         Seconds seconds) {
  timeline.intervals.push_back(
      {.operation = operation, .rank = rank, .step = step, .start = 10, .end = 10 + seconds});
}

}  // namespace

TEST_CASE("a rate is that of the slowest rank in the steps after the first") {
  Timeline timeline;
  for (const std::int32_t rank : {0, 1}) {
    add(timeline, 0, rank, 4, 99);
    add(timeline, 1, rank, 4, 99);
    for (const std::int32_t step : {5, 6}) {
      add(timeline, 0, rank, step, 1 + rank);
      add(timeline, 1, rank, step, 2);
    }
  }
  const MeasuredRates measured = measure_rates(sample_program(), timeline);
  CHECK(measured.first_step == 6);  // steps of a timeline count from 0
  CHECK(measured.last_step == 7);
  REQUIRE(measured.rates.size() == 1);
  CHECK(measured.rates.at(kCopy).count == 2);
  CHECK(measured.rates.at(kCopy).seconds == 4);
  CHECK(measured.rates.at(kCopy).spread == 0.0);
  CHECK_FALSE(measured.launches);
}

TEST_CASE("a collective takes as long as on the rank that comes last") {
  Timeline timeline;
  for (const std::int32_t step : {0, 1, 2}) {
    add(timeline, 2, 0, step, 5);
    add(timeline, 2, 1, step, 3);
  }
  CHECK(measure_rates(sample_program(), timeline).rates.at(kGather).seconds == 3);
}

TEST_CASE("operations that vary alone have the spread of a sum of independent ones") {
  // 1 and 3 in one step, 3 and 1 in the next: variances of 2 each, sums that do not vary.
  Timeline timeline;
  for (const std::int32_t operation : {0, 1}) {
    add(timeline, operation, 0, 0, 9);
    add(timeline, operation, 0, 1, operation == 0 ? 1 : 3);
    add(timeline, operation, 0, 2, operation == 0 ? 3 : 1);
  }
  const MeasuredRate rate = measure_rates(sample_program(), timeline).rates.at(kCopy);
  CHECK(rate.seconds == 4);
  REQUIRE(rate.spread);
  CHECK_THAT(*rate.spread, WithinRel(std::sqrt((2.0 + 2.0) / 2) / 4, kExact));
}

TEST_CASE("operations that are slow together have the spread of the steps' sums") {
  // 1 and 1, then 3 and 3: variances of 2 each, and sums of 2 and 6 with one of 8.
  Timeline timeline;
  for (const std::int32_t operation : {0, 1}) {
    add(timeline, operation, 0, 0, 9);
    add(timeline, operation, 0, 1, 1);
    add(timeline, operation, 0, 2, 3);
  }
  const MeasuredRate rate = measure_rates(sample_program(), timeline).rates.at(kCopy);
  REQUIRE(rate.spread);
  CHECK_THAT(*rate.spread, WithinRel(std::sqrt(8.0 / 2) / 4, kExact));
}

TEST_CASE("one step tells no spread") {
  Timeline timeline;
  add(timeline, 0, 0, 0, 9);
  add(timeline, 1, 0, 0, 9);
  const MeasuredRates measured = measure_rates(sample_program(), timeline);
  CHECK(measured.rates.at(kCopy).seconds == 18);
  CHECK_FALSE(measured.rates.at(kCopy).spread);
  CHECK(measured.num_steps() == 1);
}

/// Returns a timeline of three steps. The first operation starts while it is launched, which takes
/// three seconds; the second waits behind it on its lane.
Timeline one_awaited_launch() {
  Timeline timeline;
  for (const std::int32_t step : {0, 1, 2}) {
    Interval interval{.operation = 0, .rank = 0, .step = step, .start = 10.5, .end = 20};
    interval.issue_start = 10;
    interval.issue_end = 13;
    timeline.intervals.push_back(interval);
    interval = {.operation = 1, .rank = 0, .step = step, .start = 20, .end = 21};
    interval.issue_start = 13;
    interval.issue_end = 19;
    timeline.intervals.push_back(interval);
  }
  return timeline;
}

TEST_CASE("launches count where the device waited for them") {
  const std::vector<Seconds> calibrated{1, 1, 0};
  const auto launches = measure_rates(sample_program(), one_awaited_launch(), calibrated).launches;
  REQUIRE(launches);
  CHECK(launches->count == 1);
  CHECK(launches->seconds == 3);
  CHECK(launches->calibrated == 1);
}

TEST_CASE("a few launches that the device waited for do not stand for all") {
  const auto launches = [](Seconds second) {
    const std::vector<Seconds> calibrated{1, second, 0};
    return measure_rates(sample_program(), one_awaited_launch(), calibrated).launches;
  };
  CHECK(launches(3));
  CHECK_FALSE(launches(3.1));
}

TEST_CASE("reading a batch is no launch") {
  Program program = sample_program();
  program.operations[0] = operation(OpKind::Forward, Lane::Compute);
  program.operations[0].unit = 0;
  const std::vector<Seconds> calibrated{1, 0, 0};
  CHECK_FALSE(measure_rates(program, one_awaited_launch(), calibrated).launches);
  program.operations[0].unit = 1;
  CHECK(measure_rates(program, one_awaited_launch(), calibrated).launches);
}

TEST_CASE("phases have a rate for each class of units, and copies that add one of their own") {
  Program program;
  program.pools = {{.unit_class = "block"}, {.unit_class = "head"}};
  program.pool_of = {0, 0, 1};
  const auto phase = [](OpKind kind, std::int32_t unit, bool keep) {
    Operation op = operation(kind, Lane::Compute);
    op.unit = unit;
    op.keep = keep;
    return op;
  };
  const auto name = [&](const Operation& op) { return rate_name(rate_key(op, program)); };
  CHECK(name(phase(OpKind::Forward, 0, true)) == "forward block that keeps");
  CHECK(name(phase(OpKind::Forward, 1, false)) == "forward block");
  CHECK(name(phase(OpKind::Backward, 2, false)) == "backward head");
  CHECK(rate_key(phase(OpKind::Recompute, 0, true), program) ==
        rate_key(phase(OpKind::Recompute, 1, true), program));
  Operation copy = operation(OpKind::GradD2H, Lane::D2H);
  CHECK(name(copy) == "grad-d2h");
  copy.accumulate = true;
  CHECK(name(copy) == "grad-d2h that adds");
}

}  // namespace athanor
