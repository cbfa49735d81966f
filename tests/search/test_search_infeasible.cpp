// SPDX-License-Identifier: Apache-2.0
// Where nothing fits, every change that the message proposes must fit.
#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/policy/policies.hpp"
#include "sim/search/infeasibility_advice.hpp"
#include "sim/search/search.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "tests/search/enumerate.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstddef>
#include <map>
#include <random>
#include <string>
#include <utility>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;

struct Fixture {
  Platform platform = test::synthetic_platform(2);
  // Wide enough for sizes of several MiB, which options can say.
  Architecture architecture = wide(test::small_architecture(2, true));
  Profile profile = test::synthetic_profile(architecture, 64, {1, 2, 4});
  PlanRequest request{.num_gpus = 1, .global_batch = 4};

  static Architecture wide(Architecture architecture) {
    for (Unit& unit : architecture.units) {
      for (Parameter& parameter : unit.parameters) {
        for (std::int64_t& extent : parameter.shape) extent *= 16;
      }
    }
    return architecture;
  }

  [[nodiscard]] std::string message(Engine& engine) const {
    try {
      const TuningProblem problem = tuning_problem(profile, platform, request);
      (void)search(problem, engine, default_search_space(problem));
    } catch (const InfeasibleError& error) {
      return error.what();
    }
    return "";
  }
};

/// The number, with MiB where it has that unit, behind `option` in the message.
std::string proposal(const std::string& message, const std::string& option) {
  std::size_t begin = message.find(option + " ");
  if (begin == std::string::npos) return "";
  begin += option.size() + 1;
  std::size_t end = std::min(message.find_first_not_of("0123456789", begin), message.size());
  if (end == begin) return "";
  if (message.compare(end, 3, "MiB") == 0) end += 3;
  return message.substr(begin, end - begin);
}

}  // namespace

TEST_CASE_METHOD(Fixture, "a GPU limit that is too small names the one that fits") {
  Engine engine(platform, 1);
  request.limits.gpu = kMiB / 4;
  const std::string text = message(engine);
  CHECK_THAT(text, ContainsSubstring("gpu memory needs"));
  CHECK_THAT(text, ContainsSubstring("of 256 KiB"));
  const std::string size = proposal(text, "--gpu-memory");
  REQUIRE_FALSE(size.empty());
  request.limits.gpu = parse_bytes(size, "");
  CHECK(message(engine).empty());
  request.limits.gpu -= kMiB;  // rounded up to a whole MiB: one less must not fit
  CHECK_FALSE(message(engine).empty());
}

TEST_CASE_METHOD(Fixture, "a host limit that is too small names the one that fits") {
  Engine engine(platform, 1);
  const Bytes whole =
      plan_peak_bytes(profile, make_policy_plan("ddp", profile, platform, request)).gpu;
  request.limits = {.gpu = whole / 2, .host = kMiB};
  const std::string text = message(engine);
  CHECK_THAT(text, ContainsSubstring("host memory needs") || ContainsSubstring("gpu memory needs"));
  for (const auto& [option, limit] : {std::pair{"--gpu-memory", &MemoryLimits::gpu},
                                      std::pair{"--host-memory", &MemoryLimits::host}}) {
    const std::string size = proposal(text, option);
    REQUIRE_FALSE(size.empty());
    Fixture changed = *this;
    changed.request.limits.*limit = parse_bytes(size, "");
    CHECK(changed.message(engine).empty());
  }
}

TEST_CASE("a space whose sets of plans this machine cannot hold is refused") {
  const Fixture fixture;
  Engine engine(fixture.platform, 1);
  const TuningProblem problem = tuning_problem(fixture.profile, fixture.platform, fixture.request);
  const SearchSpace space = default_search_space(problem);
  CHECK_THROWS_WITH(search(problem, engine, space, {.memory = 1 << 10}),
                    ContainsSubstring("sets of plans to tell apart") &&
                        ContainsSubstring("1.00 KiB") && ContainsSubstring("--micro-batch"));
}

TEST_CASE("each proposed change fits, and anything smaller does not, whatever the limits") {
  std::mt19937 random(5);
  Fixture fixture;
  Engine engine(fixture.platform, 1);
  const auto fits_with = [&](const PlanRequest& request) {
    Fixture changed = fixture;
    changed.request = request;
    return changed.message(engine).empty();
  };
  std::map<std::string, int> proposed;
  for (int round = 0; round < 60; ++round) {
    fixture.request = {.num_gpus = 1, .global_batch = 4};
    fixture.request.limits.gpu = std::uniform_int_distribution<Bytes>(1, 12)(random) * kMiB;
    fixture.request.limits.host = std::uniform_int_distribution<Bytes>(1, 16)(random) * kMiB;
    if (round % 3 == 0) {
      fixture.request.limits.nvme = std::uniform_int_distribution<Bytes>(1, 8)(random) * kMiB;
    }
    if (round % 2 == 0) fixture.request.micro_batch = 4;
    const std::string text = fixture.message(engine);
    CAPTURE(round, fixture.request.limits.gpu, fixture.request.limits.host, text);
    for (const auto& [option, limit] : {std::pair{"--gpu-memory", &MemoryLimits::gpu},
                                        std::pair{"--host-memory", &MemoryLimits::host},
                                        std::pair{"--nvme", &MemoryLimits::nvme}}) {
      const std::string size = proposal(text, option);
      if (size.empty()) continue;
      ++proposed[option];
      PlanRequest request = fixture.request;
      request.limits.*limit = parse_bytes(size, "");
      CAPTURE(option, size);
      REQUIRE(fits_with(request));
      request.limits.*limit -= kMiB;  // sizes are whole MiB, rounded up
      REQUIRE_FALSE(fits_with(request));
      if (std::string_view(option) == "--nvme")
        ++proposed[fixture.request.limits.nvme > 0 ? "more" : "some"];
    }
    const std::string micro_batch = proposal(text, "--micro-batch");
    if (micro_batch.empty()) continue;
    ++proposed["--micro-batch"];
    PlanRequest request = fixture.request;
    request.micro_batch = std::stoll(micro_batch);
    REQUIRE(fits_with(request));
    request.micro_batch = *request.micro_batch * 2;  // the next that was profiled: less of a change
    REQUIRE_FALSE(fits_with(request));
  }
  for (const char* option : {"--gpu-memory", "--host-memory", "--micro-batch", "some", "more"}) {
    CAPTURE(option);
    CHECK(proposed[option] > 0);
  }
}

TEST_CASE_METHOD(Fixture, "a pinned micro-batch that is too large names a smaller one that fits") {
  Engine engine(platform, 1);
  request.micro_batch = 1;
  request.limits.gpu = kMiB / 4;
  const Bytes fits_one = parse_bytes(proposal(message(engine), "--gpu-memory"), "");
  request.micro_batch = 4;
  request.limits.gpu = fits_one;
  const std::string text = message(engine);
  const std::string size = proposal(text, "--micro-batch");
  REQUIRE_FALSE(size.empty());
  request.micro_batch = std::stoll(size);
  CHECK(message(engine).empty());
}

TEST_CASE_METHOD(Fixture, "more GPUs are proposed exactly where they fit") {
  request.limits = {.gpu = kMiB / 4, .host = 0};
  platform.cpu_adam.clear();  // everything stays on the GPUs
  const auto needed = [&](int num_gpus) {
    Fixture other = *this;
    other.request.num_gpus = num_gpus;
    const TuningProblem problem = tuning_problem(profile, platform, other.request);
    ClosestPlans plans(problem);
    test::enumerate(
        default_search_space(problem), architecture, num_gpus, [&](const Candidate& candidate) {
          plans.add(plan_peak_bytes(profile, make_plan(candidate, profile, other.request)));
        });
    return parse_bytes(proposal(no_plan_fits(plans, problem).what(), "--gpu-memory"), "");
  };
  const Bytes two = needed(2);
  REQUIRE(two < needed(1));
  Engine engine(platform, 1);
  request.limits.gpu = two;
  CHECK(proposal(message(engine), "--gpus") == "2");
  request.limits.gpu = two - kMiB;
  CHECK(proposal(message(engine), "--gpus").empty());
}

TEST_CASE_METHOD(Fixture, "a plan that does not fit names changes to itself that do") {
  request.micro_batch = 4;
  const Plan plan = make_policy_plan("ddp", profile, platform, request);
  const TierBytes peak = plan_peak_bytes(profile, plan);
  Plan recompute = plan;
  recompute_leading(recompute, static_cast<int>(plan.units.size()));
  request.limits.gpu = plan_peak_bytes(profile, recompute).gpu;
  const std::string text =
      plan_does_not_fit(plan, peak, tuning_problem(profile, platform, request)).what();
  CHECK_THAT(text, ContainsSubstring("plan ddp does not fit: gpu memory needs"));
  CHECK_THAT(text, ContainsSubstring("recompute in every unit, or"));
  CHECK_THAT(text, ContainsSubstring("athanor tune"));
  request.limits.gpu = kMiB / 4;
  CHECK_THAT(plan_does_not_fit(plan, peak, tuning_problem(profile, platform, request)).what(),
             !ContainsSubstring("recompute") && !ContainsSubstring("athanor tune"));
}

TEST_CASE_METHOD(Fixture, "where recomputing is not enough, outputs go to the host") {
  const Profile deep = test::synthetic_profile(load_architecture("opt-125m"), 1024, {16});
  request.global_batch = 16 * request.num_gpus;
  Plan plan = make_policy_plan("zero3", deep, platform, request);
  const int num_units = static_cast<int>(plan.units.size());
  recompute_leading(plan, num_units, num_units);
  request.limits.gpu = plan_peak_bytes(deep, plan).gpu;
  recompute_leading(plan, 0);
  const TierBytes peak = plan_peak_bytes(deep, plan);
  CHECK_THAT(plan_does_not_fit(plan, peak, tuning_problem(deep, platform, request)).what(),
             ContainsSubstring("recompute in every unit with its output on the host"));
}

}  // namespace athanor
