// SPDX-License-Identifier: Apache-2.0
// Programs on which contention matters: the engine and an engine without contention, both against
// an independent simulator.
#include "sim/cost/scaling.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/policy/policies.hpp"
#include "tests/engine/programs.hpp"
#include "tests/engine/reference_replay.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;

/// A policy on a machine of platforms/, with a profile that was recorded on H200s.
struct Benchmark {
  const char* model;
  const char* machine;
  const char* policy;
  int num_gpus;
  std::int64_t global_batch;
};

const std::vector<Benchmark> kBenchmarks{
    {"gpt2-4b", "h200x4", "zero3-offload", 4, 16},
    {"gpt2-4b", "a100-40x8", "fsdp2-offload", 8, 32},
    {"gpt2-10b", "v100-32x4", "zero2-offload", 4, 16},
    {"gpt2-10b", "rtx4090x4", "fsdp2-offload", 4, 16},
    {"gpt2-20b", "dgx-h100", "zero3-offload", 8, 32},
    {"opt-30b", "l40sx8", "zero3-offload", 8, 16},
    {"llama-3-8b", "a10x4", "gemini", 4, 8},
};

std::string source_file(const std::string& name) {
  return std::string(ATHANOR_SOURCE_DIR) + "/" + name;
}

Platform machine_of(const std::string& name) {
  return read_platform(source_file("platforms/" + name + ".json"));
}

Seconds engine_period(const Program& program, const Platform& platform) {
  Engine engine(platform, program.world_size);
  return engine.simulate(program, {.max_steps = 40, .record_intervals = false}).step_seconds;
}

Platform without_contention(Platform platform) {
  platform.shared.clear();
  platform.contention.clear();
  return platform;
}

/// Returns a machine whose lanes share up to four resources, or have random contention samples.
Platform random_machine(std::mt19937& random, int world_size) {
  const auto uniform = [&](double low, double high) {
    return std::uniform_real_distribution<double>(low, high)(random);
  };
  Platform platform = test::plain_platform();
  if (uniform(0, 1) < 0.3) {
    for (const Lane lane : {Lane::Compute, Lane::Collective, Lane::H2D, Lane::D2H}) {
      platform.contention.push_back(
          {world_size, {{lane, uniform(1, 2)}, {Lane::CpuAdam, uniform(1, 2)}}});
    }
    return platform;
  }
  std::map<Lane, double> use;
  for (const Lane lane : kLanes) use[lane] = uniform(0.5, 2);
  for (const int ranks : {1, world_size, 1, world_size}) {
    SharedResource resource;
    resource.scope = ranks == 1 ? SharedResource::Scope::Device : SharedResource::Scope::Node;
    for (const Lane lane : kLanes) {
      if (uniform(0, 1) < 0.5) resource.use[lane] = use[lane];
    }
    resource.capacity = ranks * uniform(0.5, 3);
    platform.shared.push_back(resource);
  }
  return platform;
}

}  // namespace

TEST_CASE(
    "on contended steps the engine is within 3 %, and without contention it is often more than 10 "
    "% "
    "off") {
  int wrong_without = 0;
  for (const Benchmark& b : kBenchmarks) {
    const Platform platform = machine_of(b.machine);
    const Profile measured =
        read_profile(source_file("traces/profiles/h200-" + std::string(b.model) + ".profile.json"));
    const Profile profile = platform.device == measured.device
                                ? measured
                                : scale_profile(measured, machine_of("h200x1"), platform);
    const PlanRequest request{.num_gpus = b.num_gpus, .global_batch = b.global_batch};
    const Program program = lower(profile, make_policy_plan(b.policy, profile, platform, request));
    const Seconds expected = test::reference_period(program, platform);
    const double error = engine_period(program, platform) / expected - 1;
    const double without = engine_period(program, without_contention(platform)) / expected - 1;
    UNSCOPED_INFO(b.model << " on " << b.machine << ", " << b.policy << ": " << expected
                          << " s, engine " << 100 * error << " %, without contention "
                          << 100 * without << " %");
    CHECK(std::abs(error) < 0.03);
    wrong_without += std::abs(without) > 0.1 ? 1 : 0;
  }
  CHECK(wrong_without >= 5);
}

TEST_CASE("the engine and the independent simulator agree on random programs") {
  std::mt19937 random(11);
  int compared = 0;
  for (int round = 0; round < 300; ++round) {
    const int world_size = 1 << (round % 3);
    const Program program = test::random_program(random, world_size, 3 + round % 40);
    const Platform platform = random_machine(random, world_size);
    CAPTURE(round, world_size);
    Engine engine(platform, world_size);
    const Timeline timeline = engine.simulate(program, {.max_steps = 40});
    if (timeline.intervals.back().step + 1 >= 40) continue;  // it has no steady state to compare
    ++compared;
    CHECK_THAT(timeline.step_seconds, WithinRel(test::reference_period(program, platform), 1e-6));
  }
  CHECK(compared > 200);
}

}  // namespace athanor
