// SPDX-License-Identifier: Apache-2.0
// The Pareto front of a search against that of every plan, simulated.
#include "sim/engine/engine.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/search/evaluated.hpp"
#include "sim/search/pareto.hpp"
#include "sim/search/ranking.hpp"
#include "sim/search/search.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "tests/search/enumerate.hpp"
#include "tests/search/random_spaces.hpp"
#include "tests/support/random_plans.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <random>
#include <set>
#include <tuple>
#include <vector>

namespace athanor {
namespace {

/// Rounded GPU memory, rounded host memory of the node, seconds.
using Point = std::tuple<Bytes, Bytes, Seconds>;

Bytes rounded(Bytes bytes, Bytes step) { return (bytes + step - 1) / step * step; }

Point point_of(const TierBytes& peak, Seconds seconds, int num_gpus, const FrontResolution& r) {
  return {rounded(peak.gpu, r.gpu_bytes),
          rounded((peak.pinned + peak.host) * num_gpus, r.host_bytes), seconds};
}

bool no_worse(const Point& a, const Point& b) {
  return std::get<0>(a) <= std::get<0>(b) && std::get<1>(a) <= std::get<1>(b) &&
         std::get<2>(a) <= std::get<2>(b);
}

/// Every plan of the space that fits.
std::vector<Point> simulate_all(const Profile& profile, const Platform& platform, Engine& engine,
                                const SearchSpace& space, const PlanRequest& request,
                                const FrontResolution& resolution) {
  const MemoryLimits limits = effective_limits(request, platform);
  std::vector<Point> all;
  test::enumerate(space, profile.architecture, request.num_gpus, [&](const Candidate& candidate) {
    const Program program = lower(profile, make_plan(candidate, profile, request));
    const TierBytes peak = peak_bytes(program);
    if (!fits(peak, request.num_gpus, limits)) return;
    const Seconds seconds = engine.simulate(program, {.record_intervals = false}).step_seconds;
    all.push_back(point_of(peak, seconds, request.num_gpus, resolution));
  });
  return all;
}

std::set<Point> exact_front(const std::vector<Point>& all) {
  std::set<Point> front;
  for (const Point& point : all) {
    const bool pruned = std::ranges::any_of(
        all, [&](const Point& other) { return other != point && no_worse(other, point); });
    if (!pruned) front.insert(point);
  }
  return front;
}

std::vector<Point> points_of(const SearchResult& result, int num_gpus) {
  std::vector<Point> points;
  for (const Evaluated& e : result.front) {
    points.push_back(point_of(e.peak_bytes, e.step_seconds, num_gpus, result.front_resolution));
  }
  return points;
}

/// Calls `check` with a request, its exact search result and all points of random small spaces.
template <typename Check>
void on_random_spaces(int num_gpus, int rounds, FrontResolution resolution, const Check& check) {
  std::mt19937 random(static_cast<unsigned>(num_gpus));
  const Platform platform = test::synthetic_platform(2);
  Engine engine(platform, num_gpus);
  for (int round = 0; round < rounds; ++round) {
    const Architecture architecture = test::small_architecture(2 + round % 3, round % 2 == 0);
    const Profile profile = test::synthetic_profile(architecture, 64, {1, 2});
    PlanRequest request{.num_gpus = num_gpus, .global_batch = 2 * num_gpus};
    request.limits.gpu = std::uniform_int_distribution<Bytes>(100'000, 800'000)(random);
    SearchSpace space = test::random_space(random, {{1, 2}, {2, 1}});
    space.gpu_adam_units = {0, 2};
    space.late_updates = {0, 3};
    const auto all = simulate_all(profile, platform, engine, space, request, resolution);
    if (all.empty()) continue;
    CAPTURE(round, all.size());
    check(search(tuning_problem(profile, platform, request), engine, space,
                 {.keep = 1, .front = resolution}),
          all);
  }
}

}  // namespace

TEST_CASE("the front at a time resolution of 0 is that of every plan simulated") {
  std::size_t largest = 0;
  std::int64_t pruned = 0;
  for (const int num_gpus : {1, 2}) {
    for (const Bytes step : {Bytes{1}, Bytes{50'000}}) {
      on_random_spaces(num_gpus, 40, {step, step, 0}, [&](const auto& result, const auto& all) {
        const std::vector<Point> points = points_of(result, num_gpus);
        const std::set<Point> expected = exact_front(all);
        REQUIRE(std::set<Point>(points.begin(), points.end()) == expected);
        REQUIRE(points.size() == expected.size());  // one plan each
        largest = std::max(largest, points.size());
        pruned += result.num_pruned;
      });
    }
  }
  CHECK(largest > 5);
  CHECK(pruned > 0);  // else the bounds did nothing
}

TEST_CASE("at a resolution in time, no plan with a member's memory is faster by more") {
  constexpr double kShare = 0.5;
  std::size_t smaller = 0;
  on_random_spaces(2, 60, {1, 1, kShare}, [&](const auto& result, const auto& all) {
    const std::vector<Point> front = points_of(result, 2);
    for (Point point : all) {
      std::get<Seconds>(point) *= 1 + kShare;
      REQUIRE(std::ranges::any_of(front, [&](const Point& p) { return no_worse(p, point); }));
    }
    for (const Point& a : front) {
      REQUIRE(std::ranges::count_if(front, [&](const Point& b) { return no_worse(b, a); }) == 1);
    }
    smaller += front.size() < exact_front(all).size() ? 1 : 0;
  });
  CHECK(smaller > 0);
}

TEST_CASE("a resolution in memory that is not given follows from what fits") {
  const std::vector<TierBytes> fitting{{.gpu = 100, .pinned = 5, .host = 0},
                                       {.gpu = 420, .pinned = 5, .host = 40}};
  const FrontResolution chosen = complete_resolution({0, 0, 0.1}, fitting, 4);
  CHECK(chosen.gpu_bytes == 32);   // 320 / 16 = 20, and the next power of two
  CHECK(chosen.host_bytes == 16);  // 160 / 16 = 10
  CHECK(chosen.time == 0.1);
  CHECK(complete_resolution({7, 9, 0}, fitting, 4).gpu_bytes == 7);
  CHECK(complete_resolution({7, 9, 0}, fitting, 4).host_bytes == 9);
  CHECK(complete_resolution({}, std::span(fitting).first(1), 1).gpu_bytes == 1);
}

TEST_CASE("a front keeps the best plan of a search as it is, and is in order of step time") {
  on_random_spaces(2, 20, {1, 1, 0}, [&](const auto& result, const auto&) {
    REQUIRE(std::ranges::is_sorted(result.front, {}, &Evaluated::step_seconds));
    REQUIRE(result.front.front().step_seconds == result.ranked.front().step_seconds);
    REQUIRE(why_not_best(result.ranked.front(), result).empty());
  });
}

}  // namespace athanor
