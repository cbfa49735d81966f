// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "sim/search/space/normal_form.hpp"
#include "sim/search/space/search_space.hpp"
#include "tests/search/enumerate.hpp"
#include "tests/search/random_spaces.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <set>

namespace athanor {
namespace {

/// Everything that a step does, without names and descriptions.
std::string fingerprint(const Program& program) {
  std::string text = std::to_string(program.cpu_adam_threads);
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    text += program.name(static_cast<std::int32_t>(i)) + lane_name(op.lane) +
            std::to_string(op.bytes) + "," + std::to_string(op.elements) + "," +
            std::to_string(op.slot) + "," + std::to_string(op.gradient_buffer) + ":";
    for (const std::int32_t wait : op.waits) text += std::to_string(wait) + " ";
    for (const std::int32_t wait : op.previous_waits) text += std::to_string(wait) + "' ";
  }
  return text;
}

struct Fixture {
  Architecture architecture = test::small_architecture(4, true);
  Profile profile = test::synthetic_profile(architecture, 16, {1, 2});
  std::mt19937 random{11};
};

}  // namespace

TEST_CASE_METHOD(Fixture, "candidates with one normal form are one program") {
  int changed = 0, without_cpu = 0;
  for (int round = 0; round < 300; ++round) {
    const int num_gpus = 1 << (round % 3);
    const bool clips = round % 2 == 0;
    const PlanRequest request{.num_gpus = num_gpus,
                              .global_batch = 2 * num_gpus,
                              .clipping = clips ? Clipping::Wait : Clipping::None};
    Candidate candidate = test::random_candidate(random);
    candidate.gpu_adam_units = round % 4 < 2 ? 6 : 0;
    const bool is_plan = candidate.prefetch_depth < candidate.cache_slots;
    if (!is_plan || !is_sensible(candidate, num_gpus, architecture)) continue;
    const Candidate normal = normal_form(candidate, architecture, num_gpus, clips);
    CHECK(normal_form(normal, architecture, num_gpus, clips) == normal);
    if (normal == candidate) continue;
    ++changed;
    const Program a = lower(profile, make_plan(candidate, profile, request));
    const Program b = lower(profile, make_plan(normal, profile, request));
    const TierBytes peak_a = peak_bytes(a);
    const TierBytes peak_b = peak_bytes(b);
    REQUIRE(peak_a.gpu == peak_b.gpu);
    REQUIRE(peak_a.pinned == peak_b.pinned);
    REQUIRE(peak_a.host == peak_b.host);
    if (normal.adam_threads == candidate.adam_threads) {
      REQUIRE(fingerprint(a) == fingerprint(b));
    } else {
      ++without_cpu;
      REQUIRE(std::ranges::count(a.operations, Lane::CpuAdam, &Operation::lane) == 0);
    }
  }
  CHECK(changed > 50);
  CHECK(without_cpu > 10);
}

TEST_CASE_METHOD(Fixture, "enumeration visits each normal form once, always in the same order") {
  for (int round = 0; round < 50; ++round) {
    const SearchSpace space = test::random_space(random, {{1, 2}, {2, 1}});
    std::vector<Candidate> first;
    std::vector<Candidate> second;
    test::enumerate(space, architecture, 2, [&](const Candidate& c) { first.push_back(c); });
    test::enumerate(space, architecture, 2, [&](const Candidate& c) { second.push_back(c); });
    CHECK(first == second);
    CHECK(std::set<Candidate>(first.begin(), first.end()).size() == first.size());
    CHECK(std::ssize(first) <= test::num_combinations(space));
  }
}

TEST_CASE_METHOD(Fixture, "the default space covers every choice and lowers throughout") {
  const Platform platform = test::synthetic_platform(4);
  for (const int num_gpus : {1, 2}) {
    const PlanRequest request{.num_gpus = num_gpus, .global_batch = 2 * num_gpus};
    const SearchSpace space = default_search_space(tuning_problem(profile, platform, request));
    std::set<Sharding> shardings;
    std::int64_t count = 0, slow = 0;
    test::enumerate(space, architecture, num_gpus, [&](const Candidate& candidate) {
      ++(candidate.late_updates > 0 || candidate.gpu_adam_units > 0 ? slow : count);
      shardings.insert(candidate.sharding);
      make_plan(candidate, profile, request).validate(architecture, "plan");
    });
    CHECK(count > 200);
    CHECK(count < 3 * 3 * 50000);  // threads of Adam, gradient rings
    CHECK(slow > 0);
    CHECK(slow < (5 * 5 - 1) * count);  // none, or four values of each
    CHECK(shardings.size() == (num_gpus > 1 ? 3 : 2));
  }
}

TEST_CASE_METHOD(Fixture, "a space without values, or with impossible ones, is refused") {
  SearchSpace space = test::random_space(random, {{1, 1}});
  const auto visit = [](const Candidate&) {};
  SECTION("empty list") { space.cache_slots.clear(); }
  SECTION("no batches") { space.batches.clear(); }
  SECTION("chunks of nothing") { space.chunk_elements = {0}; }
  SECTION("negative counts") { space.recompute_units = {-1}; }
  CHECK_THROWS_AS(test::enumerate(space, architecture, 1, visit), InputError);
}

}  // namespace athanor
