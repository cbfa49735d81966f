// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_pace.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>

#include <string>
#include <vector>

using namespace athanor;

namespace {

/// Runs `last` steps of `step_seconds` and returns the times of checkpoints.
std::vector<Seconds> checkpoints(CheckpointInterval interval, Seconds predicted,
                                 Seconds step_seconds, std::int64_t last, int& stops) {
  std::vector<Seconds> times;
  Seconds now = 100;
  CheckpointPace pace(interval, predicted, 0, now);
  for (std::int64_t done = 0; done < last; ++stops) {
    const std::int64_t stop = pace.next_stop(done, last, now);
    REQUIRE(stop > done);
    now += static_cast<double>(stop - done) * step_seconds;
    done = stop;
    if (!pace.is_due(done, now)) continue;
    times.push_back(now);
    pace.note_checkpoint(now);
  }
  return times;
}

}  // namespace

TEST_CASE("the option --checkpoint-every takes steps and times") {
  CHECK(parse_checkpoint_interval("500").steps == 500);
  CHECK(parse_checkpoint_interval("600s").seconds == 600);
  CHECK(parse_checkpoint_interval("10m").seconds == 600);
  CHECK(parse_checkpoint_interval("2h").seconds == 7200);
  CHECK_FALSE(parse_checkpoint_interval("0").is_on());
  CHECK_FALSE(parse_checkpoint_interval("0m").is_on());
  for (const char* text : {"", "s", "-1", "-5m", "ten", "10 m", "10d", "1.5", "5%", "1e3",
                           "9223372036854775808", "9223372036854775807", "999999999h"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_checkpoint_interval(text), InputError);
  }
}

TEST_CASE("checkpoints come at their time, whatever was predicted, with few stops") {
  for (const Seconds predicted : {0.0, 0.05, 0.1, 1.0}) {
    INFO(predicted);
    int stops = 0;
    const std::vector<Seconds> times = checkpoints({.seconds = 600}, predicted, 0.1, 60000, stops);
    REQUIRE(times.size() >= 9);
    REQUIRE(times.size() <= 11);
    CHECK(stops < 40);
    CHECK(times.front() - 100 >= 0.95 * 600);
    CHECK(times.front() - 100 < 1.1 * 600);
  }
}

TEST_CASE("checkpoints by steps come at multiples, and off means none") {
  int stops = 0;
  CHECK(checkpoints({.steps = 7}, 0, 1, 30, stops).size() == 4);
  CHECK(stops == 5);
  stops = 0;
  CHECK(checkpoints({}, 0, 1, 30, stops).empty());
  CHECK(stops == 1);
}
