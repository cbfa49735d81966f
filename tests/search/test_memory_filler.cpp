// SPDX-License-Identifier: Apache-2.0
// Checks which candidates the search tries when it fills memory, and how much time is lost by those
// that it skips.
#include "sim/engine/engine.hpp"
#include "sim/search/estimate.hpp"
#include "tests/search/enumerate.hpp"
#include "tests/search/random_instances.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using test::Question;
using test::Simulated;

std::vector<int> counts_up_to(std::size_t highest) {
  std::vector<int> counts(highest + 1);
  std::iota(counts.begin(), counts.end(), 0);
  return counts;
}

/// A question whose space lists every placement of parameters and every number of units that
/// recompute, but few placements of state. No state streams.
Question random_filling(std::mt19937& random, int num_gpus) {
  Question question = test::random_question(random, num_gpus);
  const std::size_t units = question.profile.architecture.units.size();
  question.space.recompute_units = counts_up_to(units);
  question.space.leading_gpu_parameters = counts_up_to(units);
  question.space.gpu_adam_units = {0};
  question.space.late_updates = {0};
  question.space.fill_memory = true;
  return question;
}

Question with_all_placements_of_state(Question question) {
  question.space.leading_gpu_optimizer = counts_up_to(question.profile.architecture.units.size());
  return question;
}

/// The question with every placement of state listed and nothing skipped.
Question product_of(Question question) {
  question.space.fill_memory = false;
  return with_all_placements_of_state(std::move(question));
}

std::vector<Candidate> representatives(const Question& question, const Platform& platform) {
  CandidateGroups groups(question.space, question.profile.architecture, question.request.num_gpus,
                         test::memory_of(question, platform));
  std::vector<Candidate> all;
  groups.for_each([&](const Candidate& each) { all.push_back(each); });
  return all;
}

bool dominates(const Candidate& a, const Candidate& b) {
  const auto without_uses = [](Candidate c) {
    c.recompute_units = c.offload_units = c.leading_gpu_parameters = c.gradient_ring = 0;
    return c;
  };
  const auto ring_size = [](const Candidate& c) {
    return c.gradient_ring == 0 ? std::numeric_limits<int>::max() : c.gradient_ring;
  };
  return a != b && without_uses(a) == without_uses(b) && a.recompute_units <= b.recompute_units &&
         a.offload_units <= b.offload_units &&
         a.leading_gpu_parameters >= b.leading_gpu_parameters && ring_size(a) >= ring_size(b);
}

/// Whether `fitting` has the combination of `c` with more or with less state on the GPU, but for
/// how memory is used otherwise.
bool fits_with_state(const std::vector<Candidate>& fitting, const Candidate& c, int by) {
  const auto key = [](Candidate other) {
    other.recompute_units = other.offload_units = other.leading_gpu_parameters = 0;
    other.nvme_parameters = false;
    return other;
  };
  Candidate wanted = key(c);
  wanted.leading_gpu_optimizer += by;
  return std::ranges::find(fitting, wanted, key) != fitting.end();
}

/// Calls `check(question, platform, engine)` with questions about random machines of one GPU or
/// two. Every placement of state is listed.
template <typename Check>
void for_random_questions(unsigned seed, const Check& check) {
  std::mt19937 random(seed);
  for (int machine = 0; machine < 4; ++machine) {
    const int num_gpus = 1 + machine % 2;
    const Platform platform = test::random_machine(random, num_gpus);
    Engine engine(platform, num_gpus);
    for (int round = 0; round < 12; ++round) {
      CAPTURE(machine, round, num_gpus);
      check(with_all_placements_of_state(random_filling(random, num_gpus)), platform, engine);
    }
  }
}

}  // namespace

TEST_CASE("filling memory leaves the candidates that fit and that no other dominates") {
  std::mt19937 random(11);
  int skipped = 0, between = 0;
  for (int round = 0; round < 60; ++round) {
    const int num_gpus = 1 + round % 2;
    const Platform platform = test::random_machine(random, num_gpus);
    Question question = random_filling(random, num_gpus);
    question.space.trailing_gpu_optimizer = {0};
    const MemoryCheck memory = test::memory_of(question, platform);
    std::vector<Candidate> fitting = representatives(product_of(question), platform);
    const int units = static_cast<int>(question.profile.architecture.units.size());
    for (int& listed : question.space.leading_gpu_optimizer) listed = std::min(listed, units);
    const auto [fewest, most] = std::ranges::minmax(question.space.leading_gpu_optimizer);
    std::erase_if(fitting, [&](const Candidate& c) {
      return c.leading_gpu_optimizer < fewest || c.leading_gpu_optimizer > most || !memory.fits(c);
    });
    std::set<Candidate> expected;
    for (const Candidate& c : fitting) {
      const bool is_dominated =
          std::ranges::any_of(fitting, [&](const Candidate& other) { return dominates(other, c); });
      const auto& listed = question.space.leading_gpu_optimizer;
      const bool is_listed = std::ranges::find(listed, c.leading_gpu_optimizer) != listed.end();
      const bool is_extreme = !fits_with_state(fitting, c, 1) || !fits_with_state(fitting, c, -1);
      if (!is_dominated && (is_listed || is_extreme)) expected.insert(c);
      skipped += is_dominated ? 1 : 0;
      between += is_listed || is_extreme ? 0 : 1;
    }
    const std::vector<Candidate> filled = representatives(question, platform);
    CAPTURE(round, num_gpus, question.request.limits.gpu, fitting.size());
    std::set<Candidate> found(filled.begin(), filled.end());
    std::erase_if(found, [&](const Candidate& c) { return !memory.fits(c); });
    CHECK(found == expected);
  }
  CHECK(skipped > 100);
  CHECK(between > 10);
}

TEST_CASE("filling memory finds a plan whenever there is one, and hardly a slower one") {
  constexpr double kSlack = 0.01;
  int feasible = 0;
  for_random_questions(12, [&](Question question, const Platform& platform, Engine& engine) {
    question.space.adam_threads = {1};
    question.space.chunk_elements = {333};
    const std::vector<Simulated> all = test::simulate_all(product_of(question), platform, engine);
    const std::vector<Simulated> filled = test::simulate_all(question, platform, engine);
    CAPTURE(question.request.limits.gpu, all.size(), filled.size());
    REQUIRE(all.empty() == filled.empty());
    if (all.empty()) return;
    ++feasible;
    CHECK(filled.front().step_seconds <= all.front().step_seconds * (1 + kSlack));
  });
  CHECK(feasible > 20);
}

TEST_CASE("more memory of any kind never loses a plan") {
  // Units are tiny and latencies long here, so that even the order of copies counts.
  constexpr double kSlack = 0.03;
  int faster = 0;
  for_random_questions(13, [&](Question question, const Platform& platform, Engine& engine) {
    question.request.limits.host = question.request.limits.gpu * question.request.num_gpus;
    Seconds before = std::numeric_limits<Seconds>::infinity();
    for (int step = 0; step < 4; ++step) {
      const std::vector<Simulated> all = test::simulate_all(question, platform, engine);
      CAPTURE(step, question.request.limits.gpu, before);
      const Seconds after =
          all.empty() ? std::numeric_limits<Seconds>::infinity() : all.front().step_seconds;
      CHECK(after <= before * (1 + kSlack));
      faster += after < before ? 1 : 0;
      before = after;
      Bytes& limit = step % 2 == 0 ? question.request.limits.gpu : question.request.limits.host;
      limit += limit / 10;
    }
  });
  CHECK(faster > 10);
}

TEST_CASE("a family's reach holds all members that fit, and its bound is below theirs") {
  int none = 0, narrower = 0, compared = 0;
  const auto check = [&](const Question& question, const Platform& platform) {
    const auto& [profile, request, space] = question;
    const TuningProblem problem = tuning_problem(profile, platform, request);
    const MemoryCheck memory = test::memory_of(question, platform);
    const CandidateFamilies families(space, profile.architecture, request.num_gpus, memory);
    Question everything = question;
    everything.space.fill_memory = false;
    const CandidateFamilies whole(everything.space, profile.architecture, request.num_gpus, memory);
    REQUIRE(families.size() == whole.size());
    Estimator estimator(problem, space.adam_threads);
    for (std::size_t family = 0; family < families.size(); ++family) {
      const std::optional<FamilyReach> reach = families.reach(family);
      CAPTURE(family);
      const FamilyReach declared = whole.reach(family).value();
      for (const Candidate& member : whole.representatives(family)) {
        if (!memory.fits(member)) continue;
        REQUIRE(reach.has_value());
        REQUIRE(member.leading_gpu_optimizer >= reach->fewest.leading_gpu_optimizer);
        REQUIRE(member.leading_gpu_optimizer <= reach->most.leading_gpu_optimizer);
        REQUIRE(member.leading_gpu_parameters >= reach->fewest.leading_gpu_parameters);
        REQUIRE(member.leading_gpu_parameters <= reach->most.leading_gpu_parameters);
        REQUIRE(member.recompute_units >= reach->fewest.recompute_units);
        const Seconds bound = estimator.bound_seconds(member, SearchLevel::Group) * (1 + 1e-12);
        REQUIRE(estimator.bound_seconds(*reach) <= bound);
        REQUIRE(estimator.bound_seconds(declared) <= bound);
        ++compared;
      }
      none += reach ? 0 : 1;
      narrower += reach && reach->most.leading_gpu_parameters < declared.most.leading_gpu_parameters
                      ? 1
                      : 0;
    }
  };
  for_random_questions(31, [&](Question question, const Platform& platform, Engine&) {
    for (const Bytes share : {8, 6, 5}) {
      CAPTURE(share);
      Question with_less = question;
      with_less.request.limits.gpu = question.request.limits.gpu * share / 8;
      check(with_less, platform);
    }
  });
  CHECK(none > 100);
  CHECK(narrower > 100);
  CHECK(compared > 10'000);
}

}  // namespace athanor
