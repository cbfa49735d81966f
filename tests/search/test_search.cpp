// SPDX-License-Identifier: Apache-2.0
#include "sim/engine/engine.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/ranking.hpp"
#include "sim/search/search.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace athanor {

TEST_CASE("the answer does not depend on the number of processes") {
  const Platform platform = test::synthetic_platform(2);
  const Profile profile = test::synthetic_profile(test::small_architecture(3, false), 64, {1, 2});
  Engine engine(platform, 2);
  const PlanRequest request{.num_gpus = 2, .global_batch = 4};
  const SearchSpace space = default_search_space(tuning_problem(profile, platform, request));
  std::vector<SearchResult> results;
  for (const int workers : {1, 2, 3}) {
    results.push_back(search(tuning_problem(profile, platform, request), engine, space,
                             {.keep = 20, .workers = workers}));
  }
  for (const SearchResult& result : results) {
    REQUIRE(result.num_simulated == results[0].num_simulated);
    for (std::size_t i = 0; i < result.ranked.size(); ++i) {
      REQUIRE(result.ranked[i].candidate == results[0].ranked[i].candidate);
      REQUIRE(result.ranked[i].step_seconds == results[0].ranked[i].step_seconds);
      REQUIRE(why_not_best(result.ranked[i], result) ==
              why_not_best(results[0].ranked[i], results[0]));
    }
  }
}

TEST_CASE("a faster CPU is offered no slower plans") {
  const Profile profile = test::synthetic_profile(test::small_architecture(3, false), 64, {1, 2});
  const PlanRequest request{.num_gpus = 1, .global_batch = 4};
  Platform platform = test::synthetic_platform(1);
  platform.shared.clear();  // on what is shared a faster lane may be in the way of the step
  SearchSpace space = default_search_space(tuning_problem(profile, platform, request));
  const auto search_with = [&](double seconds, Seconds max_cpu_seconds_per_element) {
    Platform faster = platform;
    for (auto& [threads, curve] : faster.cpu_adam) {
      for (Curve::Point& point : curve.points) point.seconds *= seconds;
    }
    space.max_cpu_seconds_per_element = max_cpu_seconds_per_element;
    Engine engine(faster, 1);
    return search(tuning_problem(profile, faster, request), engine, space,
                  {.keep = 1, .workers = 1});
  };
  const auto seconds_of = [](const SearchResult& result) {
    return result.best.prediction->step_seconds;
  };
  for (Seconds within = 1e-10; within < 1e-4; within *= 3) {
    CAPTURE(within);
    SearchResult slower = search_with(20, within);
    for (const double seconds : {2.0, 0.1}) {
      const SearchResult faster = search_with(seconds, within);
      CHECK(seconds_of(faster) <= seconds_of(slower) * (1 + 1e-9));
      slower = faster;
    }
  }
}

TEST_CASE("every loser has a reason, and the winner has none") {
  const Platform platform = test::synthetic_platform(2);
  const Profile profile = test::synthetic_profile(test::small_architecture(4, true), 64, {1, 2});
  Engine engine(platform, 2);
  PlanRequest request{.num_gpus = 2, .global_batch = 8};
  request.limits.gpu = 150'000;
  const SearchSpace space = default_search_space(tuning_problem(profile, platform, request));
  std::int64_t reports = 0;
  const SearchResult result = search(
      tuning_problem(profile, platform, request), engine, space,
      {.keep = 3, .progress = [&](const std::string&, std::int64_t done, std::int64_t total) {
         ++reports;
         CHECK(done < total);
       }});
  CHECK(reports > 0);
  REQUIRE(result.num_simulated >= 3);
  CHECK(result.num_pruned > 0);
  CHECK(result.num_not_fitting > 0);
  CHECK(why_not_best(result.ranked.front(), result).empty());
  for (std::size_t i = 1; i < result.ranked.size(); ++i) {
    const Evaluated& loser = result.ranked[i];
    REQUIRE_FALSE(why_not_best(loser, result).empty());
    if (loser.outcome == Outcome::Simulated) {
      REQUIRE(loser.step_seconds >= result.ranked[i - 1].step_seconds);
      REQUIRE(loser.bound_seconds <= loser.step_seconds * (1 + 1e-6));
    }
    if (loser.outcome == Outcome::DoesNotFit) REQUIRE(loser.peak_bytes.gpu > 150'000);
  }
}

}  // namespace athanor
