// SPDX-License-Identifier: Apache-2.0
// The search against simulating everything, and what more of anything may do to its answer.
#include "sim/cost/scaling.hpp"
#include "sim/engine/engine.hpp"
#include "sim/search/search.hpp"
#include "sim/search/space/candidate_groups.hpp"
#include "tests/search/enumerate.hpp"
#include "tests/search/random_instances.hpp"
#include "tests/support/synthetic.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <random>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using test::Question;
using test::Simulated;

/// Best step time of each question, by simulating everything; infinite where nothing fits.
std::vector<Seconds> best_seconds(const std::vector<Question>& questions,
                                  const Platform& platform) {
  Engine engine(platform, questions.front().request.num_gpus);
  std::vector<Seconds> best;
  for (const Question& question : questions) {
    const std::vector<Simulated> all = test::simulate_all(question, platform, engine);
    best.push_back(all.empty() ? std::numeric_limits<Seconds>::infinity()
                               : all.front().step_seconds);
  }
  return best;
}

std::int64_t size_of(const Question& question, const Platform& platform) {
  std::int64_t size = 0;
  test::enumerate(
      question.space, question.profile.architecture, question.request.num_gpus,
      [&](const Candidate&) { ++size; }, test::memory_of(question, platform));
  return size;
}

/// Whether each plan was counted once. Where memory is filled, families that were ruled out whole
/// count with the plans that leave memory unused.
bool counts_all(const SearchResult& result, const Question& question, const Platform& platform) {
  const std::int64_t plans = size_of(question, platform);
  return question.space.fill_memory ? result.num_plans() >= plans : result.num_plans() == plans;
}

/// As many threads as the platform's cores allow.
std::vector<Question> with_threads_of(const Platform& platform, std::vector<Question> questions) {
  for (Question& question : questions) {
    question.space.adam_threads = adam_thread_choices(question.request, platform);
  }
  return questions;
}

std::vector<Question> random_questions(std::mt19937& random, int num_gpus, int count) {
  std::vector<Question> questions;
  for (int i = 0; i < count; ++i) questions.push_back(test::random_question(random, num_gpus));
  return questions;
}

/// Asks for copies in one of `every` steps, which need all state on the GPU.
void copy_in_some_steps(Question& question, int every) {
  question.request.snapshot = Snapshot::Copy;
  question.request.snapshot_every = every;
  question.request.tries_snapshots = false;
  SearchSpace& space = question.space;
  const int all = static_cast<int>(question.profile.architecture.units.size());
  space.snapshots = {Snapshot::Copy};
  space.leading_gpu_optimizer = space.leading_gpu_parameters = {all};
  space.trailing_gpu_optimizer = space.late_updates = space.gradient_rings = {0};
  space.attention_on_gpu = space.speculate = {false};
}

}  // namespace

TEST_CASE("the search returns what simulating everything returns") {
  constexpr int kMachines = 14;  // few: SimGrid slows down with every engine that a process had
  constexpr int kQuestions = 40;
  const int num_gpus = GENERATE(1, 2, 4);
  std::mt19937 random(static_cast<unsigned>(num_gpus));
  int feasible = 0, with_fewer_threads = 0, in_groups = 0, in_some_groups = 0, on_gpu = 0;
  std::int64_t pruned = 0;
  for (int machine = 0; machine < kMachines; ++machine) {
    Platform platform = test::random_machine(random, num_gpus);
    if (machine % 2 == 1) platform = test::with_adding_copies(random, platform, num_gpus);
    Engine engine(platform, num_gpus);
    for (int i = 0; i < kQuestions; ++i) {
      Question question = test::random_question(random, num_gpus);
      question.space.fill_memory = i % 2 == 0;
      if (i % 5 == 4) question = test::with_split_blocks(std::move(question));
      if (i % 7 == 3) question = test::with_four_micro_batches(std::move(question));
      const auto& [profile, request, space] = question;
      const std::vector<Simulated> expected = test::simulate_all(question, platform, engine);
      if (expected.empty()) continue;
      ++feasible;
      CAPTURE(num_gpus, machine, i, request.limits.gpu, expected.size());
      const int keep = 1 + i % 3;
      const SearchResult result = search(tuning_problem(profile, platform, request), engine, space,
                                         {.keep = keep, .workers = 1});
      const auto certain = std::min(expected.size(), static_cast<std::size_t>(keep));
      for (std::size_t k = 0; k < certain; ++k) {
        REQUIRE(result.ranked[k].candidate == expected[k].candidate);
        REQUIRE(result.ranked[k].step_seconds == expected[k].step_seconds);
      }
      REQUIRE(result.best.prediction.has_value());
      REQUIRE(result.best.prediction->step_seconds == expected.front().step_seconds);
      // Some of the plans that were pruned together may not fit.
      REQUIRE(result.num_simulated + result.num_pruned >= std::ssize(expected));
      REQUIRE(counts_all(result, question, platform));
      pruned += result.num_pruned;
      const Candidate& best = expected.front().candidate;
      const int threads = best.adam_threads;
      in_groups += best.batch.group > 1 ? 1 : 0;
      in_some_groups += best.batch.group > 1 && best.batch.num_groups() > 1 ? 1 : 0;
      on_gpu += best.attention_on_gpu ? 1 : 0;
      with_fewer_threads += 1 < threads && threads < std::ranges::max(space.adam_threads) ? 1 : 0;
    }
  }
  CHECK(feasible > kMachines * kQuestions / 3);
  CHECK(pruned > 0);  // else the bounds did nothing
  CHECK(with_fewer_threads > 0);
  CHECK(in_groups > 0);
  // On several GPUs additions of gradients take turns with kernels, and it is all or none.
  if (num_gpus == 1) CHECK(in_some_groups > 0);
  CHECK(on_gpu > 0);
}

TEST_CASE(
    "the search takes the fastest way of snapshots that fits, as simulating everything does") {
  constexpr int kMachines = 10;
  constexpr int kQuestions = 30;
  const int num_gpus = GENERATE(1, 2, 4);
  std::mt19937 random(900 + static_cast<unsigned>(num_gpus));
  int by_redo = 0, by_versions = 0, by_copies = 0, because_of_memory = 0, with_copies = 0;
  int copies_sent = 0, in_some_steps = 0;
  for (int machine = 0; machine < kMachines; ++machine) {
    const Platform platform = test::random_machine(random, num_gpus);
    Engine engine(platform, num_gpus);
    for (int i = 0; i < kQuestions; ++i) {
      Question question = test::with_snapshots(random, test::random_question(random, num_gpus));
      question.space.fill_memory = i % 2 == 0;
      if (i % 7 == 3) question = test::with_four_micro_batches(std::move(question));
      if (i % 3 == 1 && platform.num_nodes(num_gpus) > 1) {
        question.request.snapshot = Snapshot::Versions;
        question.request.snapshot_copies = 2;
        question.request.snapshot_send = static_cast<SnapshotSend>(with_copies % 5);
        question.request.tries_snapshots = true;
        question.space.snapshots = {Snapshot::Versions, Snapshot::Copy};
      }
      if (i % 5 == 2) copy_in_some_steps(question, 2 + i % 3);
      const auto& [profile, request, space] = question;
      const std::vector<Simulated> expected = test::simulate_all(question, platform, engine);
      if (expected.empty()) continue;
      CAPTURE(num_gpus, machine, i, request.limits.host, expected.size(), request.snapshot_every);
      in_some_steps += request.snapshot_every > 1 ? 1 : 0;
      with_copies += request.snapshot_copies > 1 ? 1 : 0;
      const SearchResult result = search(tuning_problem(profile, platform, request), engine, space,
                                         {.keep = 2, .workers = 1});
      for (std::size_t k = 0; k < std::min<std::size_t>(expected.size(), 2); ++k) {
        REQUIRE(result.ranked[k].candidate == expected[k].candidate);
        REQUIRE(result.ranked[k].step_seconds == expected[k].step_seconds);
      }
      REQUIRE(counts_all(result, question, platform));
      const Snapshot best = expected.front().candidate.snapshot;
      REQUIRE(result.best.snapshot == best);
      (best == Snapshot::Redo ? by_redo : best == Snapshot::Copy ? by_copies : by_versions) += 1;
      copies_sent += best == Snapshot::Copy && request.snapshot_copies > 1 ? 1 : 0;
      because_of_memory += std::ranges::none_of(expected, [](const Simulated& one) {
        return one.candidate.snapshot == Snapshot::Versions;
      });
    }
  }
  CHECK(by_redo > 3);
  CHECK(by_versions > 10);
  CHECK(by_copies > 10);
  CHECK(because_of_memory > 0);
  CHECK((with_copies > 5) == (num_gpus > 1));
  CHECK((copies_sent > 0) == (num_gpus > 1));
  CHECK(in_some_steps > 10);
}

TEST_CASE("under a power limit the search finds the fastest plan, and the one of least energy") {
  constexpr int kMachines = 8;
  constexpr int kQuestions = 20;
  constexpr double kWithin = 1.15;
  const int num_gpus = GENERATE(1, 2);
  std::mt19937 random(300 + static_cast<unsigned>(num_gpus));
  int others = 0;
  for (int machine = 0; machine < kMachines; ++machine) {
    Platform platform = test::random_machine(random, num_gpus);
    Question first = test::random_question(random, num_gpus);
    test::limit_power(random, platform, first.profile);
    Engine engine(platform, num_gpus);
    for (int i = 0; i < kQuestions; ++i) {
      Question question = test::random_question(random, num_gpus);
      Platform unused = platform;
      test::limit_power(random, unused, question.profile);
      const std::vector<Simulated> all = test::simulate_all(question, platform, engine);
      if (all.empty()) continue;
      const auto& [profile, request, space] = question;
      const auto least = std::ranges::min_element(all, {}, [&](const Simulated& one) {
        const bool is_fast = one.step_seconds <= kWithin * all.front().step_seconds;
        return is_fast ? one.step_joules : std::numeric_limits<double>::infinity();
      });
      CAPTURE(num_gpus, machine, i, all.size());
      const SearchResult fastest = search(tuning_problem(profile, platform, request), engine, space,
                                          {.keep = 1, .workers = 1});
      REQUIRE(fastest.ranked.front().candidate == all.front().candidate);
      const SearchResult thrifty = search(tuning_problem(profile, platform, request), engine, space,
                                          {.keep = 1, .workers = 1, .energy_within = kWithin});
      REQUIRE(thrifty.ranked.front().step_joules == least->step_joules);
      REQUIRE(thrifty.best.prediction->step_seconds <= kWithin * all.front().step_seconds);
      others += thrifty.ranked.front().candidate == all.front().candidate ? 0 : 1;
    }
  }
  CHECK(others > 0);
}

TEST_CASE("with a margin the search finds the best plan of a slower host, and predicts this one") {
  constexpr int kMachines = 6;
  constexpr int kQuestions = 20;
  constexpr double kSlower = 2;  // a power of two: the same bits on either way
  const int num_gpus = GENERATE(1, 2);
  std::mt19937 random(500 + static_cast<unsigned>(num_gpus));
  int others = 0;
  for (int machine = 0; machine < kMachines; ++machine) {
    const Platform platform = test::random_machine(random, num_gpus);
    const std::vector<Question> questions = random_questions(random, num_gpus, kQuestions);
    const Platform slower = with_host_update_slowdown(platform, kSlower);
    std::vector<std::vector<Simulated>> on_slower;
    {
      Engine engine(slower, num_gpus);
      for (const Question& question : questions) {
        on_slower.push_back(test::simulate_all(question, slower, engine));
      }
    }
    Engine engine(platform, num_gpus);
    for (std::size_t i = 0; i < questions.size(); ++i) {
      if (on_slower[i].empty()) continue;
      const auto& [profile, request, space] = questions[i];
      CAPTURE(num_gpus, machine, i, on_slower[i].size());
      const std::vector<Simulated> all = test::simulate_all(questions[i], platform, engine);
      const SearchResult result =
          search(tuning_problem(profile, platform, request), engine, space,
                 {.keep = 1, .workers = 1, .host_update_slowdown = kSlower});
      const Simulated& best = on_slower[i].front();
      REQUIRE(result.ranked.front().candidate == best.candidate);
      REQUIRE(result.ranked.front().step_seconds == best.step_seconds);
      const auto as_it_is = std::ranges::find(all, best.candidate, &Simulated::candidate);
      REQUIRE(result.best.prediction->step_seconds == as_it_is->step_seconds);
      others += best.candidate == all.front().candidate ? 0 : 1;
    }
  }
  CHECK(others > 0);
}

TEST_CASE("more of anything never gives a slower best plan") {
  constexpr int kMachines = 3;
  constexpr int kQuestions = 8;
  constexpr double kSlack = 1e-9;
  const int num_gpus = GENERATE(1, 2, 4);
  std::mt19937 random(77 + static_cast<unsigned>(num_gpus));
  int faster = 0;
  for (int machine = 0; machine < kMachines; ++machine) {
    const Platform platform = test::random_machine(random, num_gpus);
    const std::vector<Question> questions = random_questions(random, num_gpus, kQuestions);
    const std::vector<Seconds> before = best_seconds(questions, platform);
    const auto check_no_slower = [&](const std::vector<Seconds>& former,
                                     const std::vector<Question>& changed, const Platform& better,
                                     const char* what) {
      const std::vector<Seconds> after = best_seconds(changed, better);
      for (std::size_t i = 0; i < after.size(); ++i) {
        CAPTURE(num_gpus, machine, i, what, former[i], after[i]);
        CHECK(after[i] <= former[i] * (1 + kSlack));
        faster += after[i] < former[i] ? 1 : 0;
      }
    };
    // Beside others a faster lane takes more of what they share, and they may be in the way of
    // the step: only where nothing is shared it never hurts.
    Platform unshared = platform;
    std::erase_if(unshared.shared, [](const auto& shared) { return shared.name != "nvme"; });
    for (SharedResource& nvme : unshared.shared) nvme.capacity = 1e18;
    unshared.contention.clear();
    const std::vector<Seconds> unshared_before = best_seconds(questions, unshared);
    for (const Lane lane : kLanes) {
      Platform better = unshared;
      test::speed_up(better, lane, 1.5);
      check_no_slower(unshared_before, questions, better, lane_name(lane));
    }
    Platform better = platform;
    for (SharedResource& resource : better.shared) resource.capacity *= 1.5;
    check_no_slower(before, questions, better, "shared capacity");
    std::vector<Question> changed = questions;
    for (Question& question : changed) question.request.limits.gpu *= 2;
    check_no_slower(before, changed, platform, "device memory");
    better = platform;
    better.host_cores *= 2;
    check_no_slower(best_seconds(with_threads_of(platform, questions), platform),
                    with_threads_of(better, questions), better, "cores");
  }
  CHECK(faster > kMachines * kQuestions);
}

}  // namespace athanor
