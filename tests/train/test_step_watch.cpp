// SPDX-License-Identifier: Apache-2.0
#include "cli/retune/step_watch.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstdint>

using namespace athanor;
using namespace athanor::cli;

namespace {

void note(StepWatch& watch, Seconds seconds, int steps) {
  for (int i = 0; i < steps; ++i) watch.note(seconds);
}

}  // namespace

TEST_CASE("steps depart once most of the latest ones do, in either direction") {
  for (const double factor : {1.5, 0.5}) {
    StepWatch watch(0.05);
    watch.expect(2);
    CHECK_FALSE(watch.departs());
    note(watch, 2 * factor, 8);
    CHECK_FALSE(watch.departs());  // too few to tell
    note(watch, 2, 9);
    CHECK_FALSE(watch.departs());
    note(watch, 2 * factor, 4);
    CHECK_FALSE(watch.departs());
    watch.note(2 * factor);
    CHECK(watch.departs());
    CHECK(watch.median() == 2 * factor);
  }
}

TEST_CASE("steps within the margin, or of which nothing was expected, do not depart") {
  StepWatch watch(0.05);
  note(watch, 1, 9);
  CHECK_FALSE(watch.departs());
  watch.expect(0.96);
  CHECK_FALSE(watch.departs());
  watch.expect(0.9);
  CHECK(watch.departs());
  watch.accept();
  CHECK_FALSE(watch.departs());
}

TEST_CASE("the pauses between searches grow, in steps and with the time that a search took") {
  SearchPace pace;
  CHECK(pace.allows(1, 0));
  std::int64_t step = 3, pause = 16;
  Seconds now = 0;
  for (int i = 0; i < 10; ++i) {
    pace.note_start(now);
    now += 2;
    pace.note_end(step, now);
    CHECK_FALSE(pace.allows(step + pause - 1, now + 100));
    CHECK_FALSE(pace.allows(step + pause, now + 19));
    CHECK(pace.allows(step + pause, now + 20));
    step += pause;
    now += 20;
    pause = std::min<std::int64_t>(2 * pause, 1024);
  }
}
