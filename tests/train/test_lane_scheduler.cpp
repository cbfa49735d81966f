// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/lane_scheduler.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>

#include <mutex>
#include <utility>
#include <vector>

namespace {

using namespace athanor;

/// Returns the program compute 0 -> collective 1 -> d2h 2, whose next step's 0 waits for this 2.
Program chain() {
  Program program;
  program.unit_names = {"unit"};
  for (const Lane lane : {Lane::Compute, Lane::Collective, Lane::D2H}) {
    Operation op;
    op.lane = lane;
    op.unit = 0;
    if (!program.operations.empty()) {
      op.waits = {static_cast<std::int32_t>(program.operations.size()) - 1};
    }
    program.operations.push_back(op);
  }
  program.operations[0].previous_waits = {2};
  return program;
}

LaneCallbacks only(std::function<void(std::int32_t, std::int64_t)> run) {
  return {.run = std::move(run),
          .started = [](std::int32_t, std::int64_t) {},
          .done = [](std::int32_t, std::int64_t, Seconds, Seconds) {}};
}

}  // namespace

TEST_CASE("operations wait for their step and for the step before") {
  const Program program = chain();
  std::atomic<bool> cancelled = false;
  std::mutex mutex;
  std::vector<std::pair<std::int64_t, std::int32_t>> order;
  {
    LaneScheduler lanes(program, 5, only([&](std::int32_t operation, std::int64_t step) {
                          const std::lock_guard lock(mutex);
                          order.emplace_back(step, operation);
                        }),
                        cancelled);
    lanes.release_until(8);
    lanes.wait_for_step(7);
  }
  CHECK_FALSE(cancelled);
  const std::vector<std::pair<std::int64_t, std::int32_t>> expected{
      {5, 0}, {5, 1}, {5, 2}, {6, 0}, {6, 1}, {6, 2}, {7, 0}, {7, 1}, {7, 2}};
  CHECK(order == expected);
}

TEST_CASE("a step that was not released does not run") {
  const Program program = chain();
  std::atomic<bool> cancelled = false;
  std::atomic<std::int64_t> last = -1;
  LaneScheduler lanes(program, 0, only([&](std::int32_t, std::int64_t step) { last = step; }),
                      cancelled);
  lanes.release_until(1);
  lanes.wait_for_step(0);
  CHECK(last == 0);
}

TEST_CASE("a failing lane stops the others and is reported") {
  const Program program = chain();
  std::atomic<bool> cancelled = false;
  std::atomic<int> later = 0;
  LaneScheduler lanes(program, 0, only([&](std::int32_t operation, std::int64_t step) {
                        if (operation == 1 && step == 2) throw Error("out of luck");
                        if (step > 2 || (step == 2 && operation == 2)) ++later;
                      }),
                      cancelled);
  lanes.release_until(10);
  CHECK_THROWS_WITH(lanes.wait_for_step(9), "out of luck");
  CHECK(cancelled);
  CHECK(later == 0);
}
