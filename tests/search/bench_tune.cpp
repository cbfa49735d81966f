// SPDX-License-Identifier: Apache-2.0
// Speed of the search on recorded profiles: opt-30b on four GPUs, and a small candidate of gpt2-1b.
#include "sim/engine/simulation_options.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/search/candidate_groups.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/search.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

struct Setting {
  explicit Setting(const std::string& model)
      : profile(read_profile(std::string(ATHANOR_SOURCE_DIR) + "/traces/profiles/h200-" + model +
                             ".profile.json")) {}

  Profile profile;
  Platform platform = read_platform(std::string(ATHANOR_SOURCE_DIR) + "/platforms/h200x4.json");
  PlanRequest request{.num_gpus = 4, .global_batch = 64};
  std::vector<Candidate> candidates = [this] {
    std::vector<Candidate> all;
    const SearchSpace space = default_search_space(profile, platform, request);
    CandidateGroups groups(space, profile.architecture, request.num_gpus);
    groups.for_each([&](const Candidate& representative) {
      all.push_back(groups.whole(representative, /*in_order=*/false).candidate);
    });
    return all;
  }();
};

const Setting& setting() {
  static const Setting shared("opt-30b");
  return shared;
}

/// The candidate of gpt2-1b, of some hundred from all over the space, whose program is nearest to
/// `operations`.
Plan plan_of_size(const Setting& s, std::size_t operations) {
  constexpr std::size_t kLooks = 500;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  Plan nearest;
  for (std::size_t i = 0; i < s.candidates.size(); i += s.candidates.size() / kLooks) {
    Plan plan = make_plan(s.candidates[i], s.profile, s.request);
    const std::size_t size = lower(s.profile, plan).operations.size();
    const std::size_t off = std::max(size, operations) - std::min(size, operations);
    if (off >= least) continue;
    least = off;
    nearest = std::move(plan);
  }
  return nearest;
}

/// All that the search does with a candidate that it cannot rule out: lowering and replay.
void candidate(benchmark::State& state) {
  const Setting s("gpt2-1b");
  const Plan plan = plan_of_size(s, static_cast<std::size_t>(state.range(0)));
  Engine engine(s.platform, s.request.num_gpus);
  const SimulationOptions options{.record_intervals = false};
  std::size_t operations = 0;
  for (auto _ : state) {
    const Program program = lower(s.profile, plan);
    operations = program.operations.size();
    benchmark::DoNotOptimize(engine.simulate(program, options).step_seconds);
  }
  state.counters["operations"] = static_cast<double>(operations);
}
BENCHMARK(candidate)->ArgName("operations")->Arg(1'000)->Unit(benchmark::kMillisecond);

/// Memory and bound, of each candidate or of its group; items are candidates.
void estimate(benchmark::State& state, SearchLevel scope) {
  const Setting& s = setting();
  Estimator estimator(s.profile, s.platform, s.request);
  std::size_t next = 0;
  for (auto _ : state) {
    const Candidate& candidate = s.candidates[next++ % s.candidates.size()];
    benchmark::DoNotOptimize(estimator.peak_bytes(candidate));
    benchmark::DoNotOptimize(estimator.bound_seconds(candidate, scope));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(estimate, one, SearchLevel::Leaf);
BENCHMARK_CAPTURE(estimate, group, SearchLevel::Group);

/// The bound of the lowered program, for comparison.
void refine(benchmark::State& state) {
  const Setting& s = setting();
  BoundTableCache slowdowns(s.platform, s.request.num_gpus);
  std::size_t next = 0;
  constexpr std::size_t kStride = 997;
  for (auto _ : state) {
    const Candidate& candidate = s.candidates[(next += kStride) % s.candidates.size()];
    const Program program = lower(s.profile, make_plan(candidate, s.profile, s.request));
    const BoundTables& slowdown = slowdowns.at(program.cpu_adam_threads);
    benchmark::DoNotOptimize(lower_bound_seconds(program, s.platform, slowdown));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(refine)->Unit(benchmark::kMicrosecond);

/// The whole search, by number of processes; items are groups of candidates.
void search_space(benchmark::State& state) {
  const Setting& s = setting();
  Engine engine(s.platform, s.request.num_gpus);
  const SearchSpace space = default_search_space(s.profile, s.platform, s.request);
  const SearchOptions options{.workers = static_cast<int>(state.range(0))};
  for (auto _ : state) {
    benchmark::DoNotOptimize(search(s.profile, s.platform, engine, space, s.request, options));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(s.candidates.size()));
}
BENCHMARK(search_space)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kSecond);

}  // namespace
}  // namespace athanor
