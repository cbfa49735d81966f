// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/policy/plan_builder.hpp"
#include "sim/policy/policies.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <array>
#include <string_view>

namespace athanor {
namespace {

struct Fixture {
  Architecture architecture = test::small_architecture(6, true);
  Platform platform = test::synthetic_platform(4);
  Profile profile = test::synthetic_profile(architecture, 16, {1, 2, 4});
  PlanRequest request{.num_gpus = 2, .global_batch = 8};

  [[nodiscard]] Plan plan(std::string_view policy) const {
    return make_policy_plan(policy, profile, platform, request);
  }
  [[nodiscard]] Bytes gpu_bytes(const Plan& plan) const {
    return plan_peak_bytes(profile, plan).gpu;
  }
};

constexpr std::array<std::string_view, 8> kBlockingPeers{"zero2-offload-blocking",
                                                         "zero3-offload-blocking",
                                                         "elixir",
                                                         "elixir-calibrated",
                                                         "elixir-fifo",
                                                         "gemini",
                                                         "gemini-static",
                                                         "patrickstar"};

bool all_runs(const Plan& plan, Placement placement) {
  return std::ranges::all_of(plan.units, [&](const UnitPlan& unit) {
    return std::ranges::all_of(unit.chunks, [&](const ChunkRun& run) {
      return run.parameters == placement.parameters && run.optimizer == placement.optimizer;
    });
  });
}

bool all_units(const Plan& plan, Sharding sharding) {
  return std::ranges::all_of(plan.units,
                             [&](const UnitPlan& unit) { return unit.sharding == sharding; });
}

std::ptrdiff_t num_recompute(const Plan& plan) {
  return std::ranges::count(plan.units, Activation::Recompute, &UnitPlan::activation);
}

}  // namespace

TEST_CASE_METHOD(Fixture, "every policy makes a valid plan that fits and keeps the batch") {
  const auto names = policy_names();
  REQUIRE(names.size() == 17);
  request.num_gpus = GENERATE(1, 2, 4);
  for (const std::string& name : names) {
    CAPTURE(name, request.num_gpus);
    const Plan plan = this->plan(name);
    plan.validate(architecture, name);
    CHECK(plan.name == name);
    CHECK(plan.global_batch() == request.global_batch);
    CHECK(plan.world_size == request.num_gpus);
    CHECK(fits(plan_peak_bytes(profile, plan), request.num_gpus,
               effective_limits(request, platform)));
    CHECK_FALSE(policy_summary(name).empty());
  }
}

TEST_CASE_METHOD(Fixture, "the peers place parameters and state as documented") {
  CHECK(all_units(plan("ddp"), Sharding::Replicated));
  for (const char* name : {"zero1", "zero2", "zero2-offload", "zero2-offload-blocking"}) {
    CHECK(all_units(plan(name), Sharding::OptimizerSharded));
  }
  for (const char* name : {"zero3", "zero3-offload", "fsdp2", "fsdp2-offload", "gemini",
                           "gemini-static", "patrickstar", "elixir"}) {
    CHECK(all_units(plan(name), Sharding::Sharded));
  }
  for (const char* name :
       {"ddp", "zero1", "zero2", "zero3", "fsdp2", "gemini-static", "patrickstar"}) {
    CHECK(all_runs(plan(name), kAllOnGpu));
  }
  CHECK(all_runs(plan("zero2-offload"), kOptimizerOnHost));
  for (const char* name : {"zero3-offload", "fsdp2-offload", "gemini"}) {
    CHECK(all_runs(plan(name), kAllOnHost));
  }
  CHECK(all_runs(plan("zero-infinity"), kStateOnNvme));
  CHECK(plan("zero-infinity").nvme_buffers == 1);
}

TEST_CASE_METHOD(Fixture, "ZeRO-Infinity leaves parameters in host memory as long as they fit") {
  const TierBytes state_alone = plan_peak_bytes(profile, plan("zero-infinity"));
  request.limits.host = request.num_gpus * (state_alone.host + state_alone.pinned);
  CHECK(all_runs(plan("zero-infinity"), kStateOnNvme));
  request.limits.host -= 1;
  CHECK(all_runs(plan("zero-infinity"), kAllOnNvme));
}

TEST_CASE_METHOD(Fixture, "the peers fetch ahead as far as documented") {
  for (const char* name : {"fsdp2", "fsdp2-offload", "elixir", "elixir-calibrated"}) {
    CHECK(plan(name).prefetch_depth == 1);
  }
  for (const char* name : {"gemini", "gemini-static", "patrickstar", "elixir-fifo"}) {
    CHECK(plan(name).prefetch_depth == 0);
  }
}

TEST_CASE_METHOD(Fixture, "every peer updates after backward, and chunk managers block on copies") {
  for (const std::string& name : policy_names()) {
    CAPTURE(name);
    CHECK(plan(name).schedule.optimizer == OptimizerStart::AfterBackward);
    const bool overlaps = std::ranges::find(kBlockingPeers, name) == kBlockingPeers.end();
    CHECK((plan(name).schedule.copies == Copies::Overlapped) == overlaps);
    CHECK((plan(name).schedule.optimizer_lanes == OptimizerLanes::Concurrent) == overlaps);
    CHECK((plan(name).schedule.eviction == Eviction::Fifo) == (name == "elixir-fifo"));
  }
}

TEST_CASE_METHOD(Fixture, "each stage of ZeRO takes less device memory than the one before") {
  request.num_gpus = 4;
  request.micro_batch = 1;
  const std::vector<std::string> stages{"ddp", "zero1", "zero2", "zero2-offload", "fsdp2-offload"};
  for (std::size_t i = 1; i < stages.size(); ++i) {
    CAPTURE(stages[i]);
    CHECK(gpu_bytes(plan(stages[i])) < gpu_bytes(plan(stages[i - 1])));
  }
}

TEST_CASE_METHOD(
    Fixture, "the largest micro-batch that fits is taken, with recompute before a smaller one") {
  const Plan roomy = plan("fsdp2");
  CHECK(roomy.micro_batch == 4);
  CHECK(num_recompute(roomy) == 0);
  request.limits.gpu = gpu_bytes(roomy) - 1;
  const Plan tight = plan("fsdp2");
  CHECK(tight.micro_batch == 4);
  CHECK(num_recompute(tight) == std::ssize(architecture.units) - 1);
  request.limits.gpu = gpu_bytes(tight) - 1;
  const Plan tighter = plan("fsdp2");
  CHECK(tighter.micro_batch == 2);
  CHECK(gpu_bytes(tighter) <= request.limits.gpu);
}

TEST_CASE_METHOD(Fixture, "a policy returns its leanest plan where nothing fits") {
  request.limits.gpu = 1;
  const Plan leanest = plan("ddp");
  CHECK(leanest.micro_batch == 1);
  CHECK(num_recompute(leanest) == std::ssize(architecture.units) - 1);
}

/// Fixture with wide units, so that parameters and not activations decide.
struct WideFixture : Fixture {
  explicit WideFixture(std::int64_t times = 8, int num_blocks = 6) {
    architecture = test::small_architecture(num_blocks, true);
    for (Unit& unit : architecture.units) {
      for (Parameter& parameter : unit.parameters) {
        for (std::int64_t& extent : parameter.shape) extent *= times;
      }
    }
    profile = test::synthetic_profile(architecture, 16, {1});
  }
  /// Sets a limit half way between the policy's plan without a limit and everything on the host.
  void halve_memory(const char* policy) {
    request.limits.gpu = 0;
    const Bytes whole = gpu_bytes(plan(policy));
    const Bytes offloaded = gpu_bytes(plan("fsdp2-offload"));
    REQUIRE(offloaded < whole);
    request.limits.gpu = offloaded + (whole - offloaded) / 2;
  }
};

TEST_CASE_METHOD(WideFixture, "chunk managers offload no more than they must") {
  for (const char* name : {"gemini-static", "elixir", "elixir-calibrated", "patrickstar"}) {
    CAPTURE(name);
    request.limits.gpu = 0;
    CHECK(all_runs(plan(name), kAllOnGpu));
    halve_memory(name);
    const Plan half = plan(name);
    CHECK_FALSE(all_runs(half, kAllOnHost));
    CHECK_FALSE(all_runs(half, kAllOnGpu));
    CHECK(gpu_bytes(half) <= request.limits.gpu);
  }
}

/// Fixture with more parameters than a few of Elixir's largest chunks hold.
struct SeveralChunksFixture : WideFixture {
  SeveralChunksFixture() : WideFixture(128, 40) { request.limits.gpu = 3 * kGiB; }
};

TEST_CASE_METHOD(SeveralChunksFixture, "calibrated figures can reverse Elixir's one decision") {
  const auto on_gpu = [](const Plan& plan) {
    std::int64_t chunks = 0;
    for (const UnitPlan& unit : plan.units) {
      for (const ChunkRun& run : unit.chunks) chunks += run.optimizer == Home::Gpu ? run.count : 0;
    }
    return chunks;
  };
  const Plan published = plan("elixir");
  for (Curve::Point& point : platform.device_adam.points) point.seconds *= 100;
  CHECK(plan("elixir").cache_slots == published.cache_slots);
  const Plan calibrated = plan("elixir-calibrated");
  CHECK(calibrated.cache_slots > published.cache_slots);
  CHECK(on_gpu(calibrated) < on_gpu(published));
}

TEST_CASE_METHOD(WideFixture, "Gemini's cache takes at most nine tenths of the memory") {
  CHECK(plan("gemini").cache_slots == largest_class_size(architecture));
  request.limits.gpu = gpu_bytes(plan("gemini"));
  Plan tight = plan("gemini");
  CHECK(tight.cache_slots < largest_class_size(architecture));
  CHECK(tight.cache_slots > 2);
  CHECK(10 * gpu_bytes(tight) <= 9 * request.limits.gpu);
  ++tight.cache_slots;
  CHECK(10 * gpu_bytes(tight) > 9 * request.limits.gpu);
}

TEST_CASE_METHOD(WideFixture, "a policy makes no plan where Elixir's search has no answer") {
  request.limits.gpu = 100 * kKiB;
  CHECK_THROWS_AS(plan("elixir"), InfeasibleError);
}

TEST_CASE_METHOD(Fixture, "an unknown policy is refused with a list of known policies") {
  CHECK_THROWS_MATCHES(
      plan("zero4"), InputError,
      Catch::Matchers::MessageMatches(Catch::Matchers::ContainsSubstring("fsdp2-offload")));
}

}  // namespace athanor
