// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine.hpp"
#include "sim/model/errors.hpp"
#include "sim/model/lowering.hpp"
#include "sim/tune/search.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"
#include "tests/tune/random_spaces.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <optional>
#include <random>
#include <tuple>

namespace athanor {
namespace {

using Key = std::tuple<Seconds, Bytes, std::int64_t>;

struct BruteForce {
  Candidate candidate;
  Key key;
};

/// Every fitting candidate of the space, simulated, best first.
std::vector<BruteForce> simulate_all(const Profile& profile, const Platform& platform,
                                     Engine& engine, const SearchSpace& space,
                                     const PlanRequest& request) {
  const MemoryLimits limits = effective_limits(request, platform);
  std::vector<BruteForce> all;
  std::int64_t index = 0;
  enumerate(space, profile.architecture, request.num_gpus, [&](const Candidate& candidate) {
    const Program program = lower(profile, make_plan(candidate, profile, request));
    const TierBytes peak = peak_bytes(program);
    if (fits(peak, request.num_gpus, limits)) {
      const Timeline timeline = engine.simulate(program, {.record_intervals = false});
      all.push_back({candidate, {timeline.step_seconds, total_bytes(peak), index}});
    }
    ++index;
  });
  std::ranges::sort(all, {}, &BruteForce::key);
  return all;
}

void check_against_brute_force(int num_gpus, int rounds) {
  std::mt19937 random(static_cast<unsigned>(num_gpus));
  const Platform platform = test::synthetic_platform(2);
  Engine engine(platform, num_gpus);
  int feasible = 0;
  std::int64_t bounded = 0;
  for (int round = 0; round < rounds; ++round) {
    const Architecture architecture = test::small_architecture(2 + round % 3, round % 2 == 0);
    const Profile profile = test::synthetic_profile(architecture, 64, {1, 2});
    PlanRequest request{.num_gpus = num_gpus, .global_batch = 2 * num_gpus};
    request.limits.gpu = std::uniform_int_distribution<Bytes>(30'000, 400'000)(random);
    if (round % 4 == 0) request.clipping = Clipping::Wait;
    const SearchSpace space = test::random_space(random, {{1, 2}, {2, 1}});
    const auto expected = simulate_all(profile, platform, engine, space, request);
    CAPTURE(round, request.limits.gpu, expected.size());
    const int keep = 1 + round % 3;
    if (expected.empty()) continue;
    ++feasible;
    const SearchResult result = search(profile, platform, engine, space, request, {.keep = keep});
    const auto certain = std::min(expected.size(), static_cast<std::size_t>(keep));
    for (std::size_t i = 0; i < certain; ++i) {
      REQUIRE(result.ranked[i].candidate == expected[i].candidate);
      REQUIRE(result.ranked[i].step_seconds == std::get<Seconds>(expected[i].key));
    }
    REQUIRE(result.best.prediction.has_value());
    REQUIRE(result.best.prediction->step_seconds == std::get<Seconds>(expected[0].key));
    REQUIRE(result.num_simulated + result.num_bounded == std::ssize(expected));
    bounded += result.num_bounded;
  }
  CHECK(feasible > rounds / 2);
  CHECK(bounded > 0);  // else the bounds did nothing
}

}  // namespace

TEST_CASE("Search agrees with brute force on random spaces, one GPU") {
  check_against_brute_force(1, 120);
}

TEST_CASE("Search agrees with brute force on random spaces, two GPUs") {
  check_against_brute_force(2, 120);
}

TEST_CASE("The answer does not depend on the number of processes") {
  const Platform platform = test::synthetic_platform(2);
  const Profile profile = test::synthetic_profile(test::small_architecture(3, false), 64, {1, 2});
  Engine engine(platform, 2);
  const PlanRequest request{.num_gpus = 2, .global_batch = 4};
  const SearchSpace space = default_search_space(profile, platform, request);
  std::vector<SearchResult> results;
  for (const int workers : {1, 2, 3}) {
    results.push_back(
        search(profile, platform, engine, space, request, {.keep = 20, .workers = workers}));
  }
  for (const SearchResult& result : results) {
    REQUIRE(result.num_simulated == results[0].num_simulated);
    for (std::size_t i = 0; i < result.ranked.size(); ++i) {
      REQUIRE(result.ranked[i].candidate == results[0].ranked[i].candidate);
      REQUIRE(result.ranked[i].step_seconds == results[0].ranked[i].step_seconds);
      REQUIRE(result.ranked[i].reason == results[0].ranked[i].reason);
    }
  }
}

TEST_CASE("Every loser has a reason, and the winner has none") {
  const Platform platform = test::synthetic_platform(2);
  const Profile profile = test::synthetic_profile(test::small_architecture(4, true), 64, {1, 2});
  Engine engine(platform, 2);
  PlanRequest request{.num_gpus = 2, .global_batch = 8};
  request.limits.gpu = 150'000;
  const SearchSpace space = default_search_space(profile, platform, request);
  std::int64_t reports = 0;
  const SearchResult result = search(
      profile, platform, engine, space, request,
      {.keep = 3, .progress = [&](const std::string&, std::int64_t done, std::int64_t total) {
         ++reports;
         CHECK(done < total);
       }});
  CHECK(reports > 0);
  REQUIRE(result.num_simulated >= 3);
  CHECK(result.num_bounded > 0);
  CHECK(result.num_not_fitting > 0);
  CHECK(result.ranked.front().reason.empty());
  for (std::size_t i = 1; i < result.ranked.size(); ++i) {
    const Evaluated& loser = result.ranked[i];
    REQUIRE_FALSE(loser.reason.empty());
    if (loser.outcome == Outcome::Simulated) {
      REQUIRE(loser.step_seconds >= result.ranked[i - 1].step_seconds);
      REQUIRE(loser.bound_seconds <= loser.step_seconds * (1 + 1e-6));
    }
    if (loser.outcome == Outcome::DoesNotFit) REQUIRE(loser.peak_bytes.gpu > 150'000);
  }
}

}  // namespace athanor
