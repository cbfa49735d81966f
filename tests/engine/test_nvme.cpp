// SPDX-License-Identifier: Apache-2.0
// Optimizer state that passes between a file and the CPU, and parameters between a file and the
// GPU, in closed form.
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/random_plans.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::WithinRel;

constexpr int kUnits = 12;
constexpr Seconds kRead = 2, kAdam = 1, kWrite = 3;

/// Returns an architecture of equal units with one chunk each.
Architecture equal_units() {
  Architecture architecture;
  architecture.name = "equal";
  for (int i = 0; i < kUnits; ++i) {
    architecture.units.push_back({"unit." + std::to_string(i), "unit", {{"weight", {32}}}, {}});
  }
  return architecture;
}

/// Returns a program with all state in files. Nothing but state takes time.
Program state_program(int buffers) {
  const Architecture architecture = equal_units();
  Plan plan = test::uniform_plan(architecture, 1, Sharding::Replicated, Home::Gpu, Home::Nvme);
  plan.nvme_buffers = buffers;
  return lower(test::small_profile(architecture, 1), plan);
}

Platform state_platform(double capacity) {
  Platform platform = test::plain_platform();
  const auto always = [](Seconds seconds) { return Curve{{{1, seconds, 0}, {2, seconds, 0}}}; };
  platform.file_read = always(kRead);
  platform.file_write = always(kWrite);
  platform.cpu_adam[1] = always(kAdam);
  platform.h2d = platform.d2h = always(0);
  test::share(platform, SharedResource::Scope::Node, capacity, {Lane::NvmeRead, Lane::NvmeWrite},
              1);
  return platform;
}

Seconds period(int buffers, double capacity, int world_size = 1) {
  Program program = state_program(buffers);
  for (Operation& op : program.operations) op.compute_seconds = 0;
  program.world_size = world_size;
  Platform platform = state_platform(capacity);
  platform.num_devices = world_size;
  return Engine(platform, world_size).simulate(program).step_seconds;
}

/// Returns the period with all parameters in files too. Only reading them and copying them to the
/// GPU take time.
Seconds parameter_period(int buffers, Seconds copy) {
  const Architecture architecture = equal_units();
  Plan plan = test::uniform_plan(architecture, 1, Sharding::Sharded, Home::Nvme, Home::Nvme);
  plan.parameter_buffers = buffers;
  Program program = lower(test::small_profile(architecture, 1), plan);
  for (Operation& op : program.operations) op.compute_seconds = 0;
  Platform platform = state_platform(2);
  platform.h2d = {{{1, copy, 0}, {2, copy, 0}}};
  platform.cpu_adam[1] = platform.file_write = {{{1, 0, 0}, {2, 0, 0}}};
  constexpr Bytes kParameters = kFileBlock, kWithState = 2 * kFileBlock;
  platform.file_read = {{{kParameters, kRead, 0}, {kWithState, 0, 0}}};
  return Engine(platform, 1).simulate(program).step_seconds;
}

/// Number of fetches: forward fetches all units, backward all but the two that are in slots.
constexpr int kFetches = 2 * kUnits - 2;

TEST_CASE("with one buffer parameters are read and copied in turn") {
  CHECK_THAT(parameter_period(1, 3), WithinRel(kFetches * (kRead + 3), 1e-9));
}

TEST_CASE(
    "with two buffers parameters are read while others are copied, and the step begins with a "
    "read") {
  CHECK_THAT(parameter_period(2, 3), WithinRel(kRead + kFetches * 3, 1e-9));
  CHECK_THAT(parameter_period(2, 1), WithinRel(kFetches * kRead + 1, 1e-9));
}

TEST_CASE("with many buffers the period is the slowest of reading, updating and writing") {
  CHECK_THAT(period(3, 2), WithinRel(kUnits * kWrite, 1e-9));
}

TEST_CASE("with one buffer for files reading, updating and writing follow each other") {
  CHECK_THAT(period(1, 2), WithinRel(kUnits * (kRead + kAdam + kWrite), 1e-9));
}

TEST_CASE("if reads and writes take turns, the period is their sum") {
  CHECK_THAT(period(4, 1), WithinRel(kUnits * (kRead + kWrite), 1e-9));
}

TEST_CASE("ranks share their node's files") {
  CHECK_THAT(period(4, 2, 4), WithinRel(kUnits * (kRead + kWrite) * 4 / 2, 1e-9));
}

TEST_CASE("a platform without its files' curve or shared resource is refused") {
  const Program program = state_program(3);
  Platform platform = state_platform(2);
  platform.shared.clear();
  CHECK_THROWS_WITH(Engine(platform, 1).simulate(program), ContainsSubstring("shared"));
  platform = state_platform(2);
  platform.file_read = {};
  CHECK_THROWS_WITH(Engine(platform, 1).simulate(program), ContainsSubstring("file_read"));
}

}  // namespace
}  // namespace athanor
