// SPDX-License-Identifier: Apache-2.0
// Optimizer state in host memory that streams through the GPU, in closed form.
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

constexpr int kUnits = 12;
constexpr std::int64_t kElements = 32;
constexpr Seconds kRead = 3, kAdam = 1, kWrite = 2;

/// Returns the period of equal units with one chunk each, of which the first `streamed` stream.
/// Nothing but streams and Adam takes time.
Seconds period(int streamed, int buffers, Seconds cpu_adam) {
  Architecture architecture;
  architecture.name = "equal";
  for (int i = 0; i < kUnits; ++i) {
    architecture.units.push_back(
        {"unit." + std::to_string(i), "unit", {{"weight", {kElements}}}, {}});
  }
  Plan plan = test::uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Host);
  plan.stream_buffers = buffers;
  for (int i = 0; i < streamed; ++i) {
    plan.units[static_cast<std::size_t>(i)].chunks[0].gpu_adam = true;
  }
  Program program = lower(test::small_profile(architecture, 1), plan);
  for (Operation& op : program.operations) op.compute_seconds = 0;
  Platform platform = test::plain_platform();
  // A gradient or a parameter alone is copied in no time. Streams copy three parts of the state
  // too.
  constexpr double kCopy = kElements * 4;
  platform.h2d = {{{kCopy, 0, 0}, {4 * kCopy, kRead, 0}}};
  platform.d2h = {{{kCopy, 0, 0}, {3 * kCopy, kWrite, 0}}};
  platform.device_adam = {{{1, kAdam, 0}, {2, kAdam, 0}}};
  platform.cpu_adam[1] = {{{1, cpu_adam, 0}, {2, cpu_adam, 0}}};
  return Engine(platform, 1).simulate(program).step_seconds;
}

}  // namespace

TEST_CASE("with two buffers the period is all reads, then the last update and the last write") {
  // The next step's gradients come after that write, on the same lane.
  CHECK_THAT(period(kUnits, 2, 0), WithinRel(kUnits * kRead + kAdam + kWrite, 1e-9));
}

TEST_CASE("with one buffer reading, updating and writing follow each other") {
  CHECK_THAT(period(kUnits, 1, 0), WithinRel(kUnits * (kRead + kAdam + kWrite), 1e-9));
}

TEST_CASE("the CPU updates the chunks that do not stream meanwhile") {
  constexpr int kStreamed = 4;
  constexpr Seconds kCpuAdam = 5;
  CHECK_THAT(period(kStreamed, 2, kCpuAdam), WithinRel((kUnits - kStreamed) * kCpuAdam, 1e-9));
}

}  // namespace athanor
