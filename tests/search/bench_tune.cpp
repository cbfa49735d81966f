// SPDX-License-Identifier: Apache-2.0
// Speed of the search on recorded profiles: opt-30b on four GPUs, and a small candidate of gpt2-1b.
#include "sim/bounds/bound_terms.hpp"
#include "sim/cost/scaling.hpp"
#include "sim/engine/simulation_options.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/search/estimate.hpp"
#include "sim/search/search.hpp"
#include "sim/search/space/candidate_groups.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

std::string source(const std::string& path) {
  return std::string(ATHANOR_SOURCE_DIR) + "/" + path + ".json";
}

/// A profile that was measured on an H200, on a platform of as many GPUs as it has; or any.
struct Setting {
  Setting(Platform machine, Profile measured, PlanRequest asked)
      : platform(std::move(machine)), profile(std::move(measured)), request(std::move(asked)) {}
  explicit Setting(const std::string& model, const std::string& platform_name = "h200x4",
                   std::int64_t global_batch = 64)
      : platform(read_platform(source("platforms/" + platform_name))),
        profile(on_platform(read_profile(source("traces/profiles/h200-" + model + ".profile")))),
        request{.num_gpus = platform.num_devices, .global_batch = global_batch} {}

  [[nodiscard]] Profile on_platform(const Profile& measured) const {
    if (measured.device == platform.device) return measured;
    return scale_profile(measured, read_platform(source("platforms/h200x1")), platform);
  }
  [[nodiscard]] TuningProblem problem() const { return tuning_problem(profile, platform, request); }
  [[nodiscard]] SearchSpace space() const { return default_search_space(problem()); }

  Platform platform;
  Profile profile;
  PlanRequest request;
};

/// Every group's representative.
std::vector<Candidate> candidates_of(const Setting& s) {
  std::vector<Candidate> all;
  const SearchSpace space = s.space();
  CandidateGroups groups(space, s.profile.architecture, s.request.num_gpus);
  groups.for_each([&](const Candidate& representative) {
    all.push_back(groups.whole(representative, /*in_order=*/false).candidate);
  });
  return all;
}

const Setting& setting() {
  static const Setting shared("opt-30b");
  return shared;
}
const std::vector<Candidate>& candidates() {
  static const std::vector<Candidate> shared = candidates_of(setting());
  return shared;
}

/// The candidate of gpt2-1b, of some hundred from all over the space, whose program is nearest to
/// `operations`.
Plan plan_of_size(const Setting& s, std::size_t operations) {
  constexpr std::size_t kLooks = 500;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  Plan nearest;
  const std::vector<Candidate> all = candidates_of(s);
  for (std::size_t i = 0; i < all.size(); i += all.size() / kLooks) {
    Plan plan = make_plan(all[i], s.profile, s.request);
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
void estimate(benchmark::State& state, SearchLevel level) {
  const Setting& s = setting();
  Estimator estimator(s.problem());
  std::size_t next = 0;
  for (auto _ : state) {
    const Candidate& candidate = candidates()[next++ % candidates().size()];
    benchmark::DoNotOptimize(estimator.peak_bytes(candidate));
    benchmark::DoNotOptimize(estimator.bound_seconds(candidate, level));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK_CAPTURE(estimate, one, SearchLevel::Leaf);
BENCHMARK_CAPTURE(estimate, group, SearchLevel::Group);

/// The bound of the lowered program, for comparison.
void refine(benchmark::State& state) {
  const Setting& s = setting();
  BoundTableCache tables(s.platform, s.request.num_gpus);
  std::size_t next = 0;
  constexpr std::size_t kStride = 997;
  for (auto _ : state) {
    const Candidate& candidate = candidates()[(next += kStride) % candidates().size()];
    const Program program = lower(s.profile, make_plan(candidate, s.profile, s.request));
    const BoundTables& bound_tables = tables.at(program.cpu_adam_threads);
    benchmark::DoNotOptimize(lower_bound_seconds(program, s.platform, bound_tables));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(refine)->Unit(benchmark::kMicrosecond);

/// The whole search, by number of processes; items are groups of candidates.
void search_space(benchmark::State& state) {
  const Setting& s = setting();
  Engine engine(s.platform, s.request.num_gpus);
  const SearchSpace space = s.space();
  const SearchOptions options{.workers = static_cast<int>(state.range(0))};
  for (auto _ : state) {
    benchmark::DoNotOptimize(search(s.problem(), engine, space, options));
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(candidates().size()));
}
BENCHMARK(search_space)
    ->ArgName("workers")
    ->Arg(1)
    ->Arg(2)
    ->UseRealTime()
    ->Unit(benchmark::kSecond);

/// Measures a search, and notes what it found and what it took.
void measure_search(benchmark::State& state, const Setting& s, const SearchOptions& options) {
  Engine engine(s.platform, s.request.num_gpus);
  const SearchSpace space = s.space();
  SearchResult result;
  for (auto _ : state) {
    result = search(s.problem(), engine, space, options);
  }
  state.counters["simulated"] = static_cast<double>(result.num_simulated);
  state.counters["lowered"] = static_cast<double>(result.num_lowered);
  state.counters["step"] = result.ranked.front().step_seconds;
}

/// The search with one term of the bounds off: how many plans it simulates, and how many it lowers.
/// Last argument: the term's number, or kNumBoundTerms for the search as it is.
void ablation(benchmark::State& state, const std::string& model, const std::string& platform,
              std::int64_t global_batch, Clipping clipping) {
  Setting s(model, platform, global_batch);
  s.request.clipping = clipping;
  const auto term = static_cast<unsigned>(state.range(0));
  SearchOptions options;
  if (term < kNumBoundTerms) {
    options.bound_terms = options.bound_terms.without(static_cast<BoundTerm>(term));
  }
  measure_search(state, s, options);
}
void every_term(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("off")
      ->DenseRange(0, kNumBoundTerms)
      ->Iterations(1)
      ->UseRealTime()
      ->Unit(benchmark::kSecond);
}
BENCHMARK_CAPTURE(ablation, opt_30b_64, "opt-30b", "h200x4", 64, Clipping::None)->Apply(every_term);
BENCHMARK_CAPTURE(ablation, opt_30b_64_clip, "opt-30b", "h200x4", 64, Clipping::Wait)
    ->Apply(every_term);
BENCHMARK_CAPTURE(ablation, opt_30b_128, "opt-30b", "h200x4", 128, Clipping::None)
    ->Apply(every_term);
BENCHMARK_CAPTURE(ablation, opt_30b_256, "opt-30b", "h200x4", 256, Clipping::None)
    ->Apply(every_term);
BENCHMARK_CAPTURE(ablation, gpt2_4b_dgx, "gpt2-4b", "dgx-h100", 128, Clipping::None)
    ->Apply(every_term);
BENCHMARK_CAPTURE(ablation, gpt2_20b_a100, "gpt2-20b", "a100-40x4", 64, Clipping::None)
    ->Apply(every_term);

/// A setting of lab/grid.py on H100s, with memory in GiB.
struct GridSetting {
  const char* profile;
  const char* platform;
  int gpus;
  Bytes gpu_gib, host_gib;
  std::int64_t batch;
};

/// The searches of the grid that took longest, with and without the terms that were added for them.
/// Last argument: whether these count.
void grid(benchmark::State& state, const GridSetting& asked) {
  PlanRequest request{.num_gpus = asked.gpus, .global_batch = asked.batch};
  request.limits.gpu = asked.gpu_gib * kGiB;
  request.limits.host = asked.host_gib * kGiB;
  const Setting s(
      read_platform(source(std::string("platforms/") + asked.platform)),
      read_profile(source(std::string("traces/profiles/") + asked.profile + ".profile")), request);
  SearchOptions options;
  if (state.range(0) == 0) {
    for (const BoundTerm term :
         {BoundTerm::FurtherWeights, BoundTerm::FirstMultiplier, BoundTerm::UpdateParts}) {
      options.bound_terms = options.bound_terms.without(term);
    }
  }
  measure_search(state, s, options);
}
void with_and_without(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("further")
      ->DenseRange(0, 1)
      ->Iterations(1)
      ->MeasureProcessCPUTime()
      ->UseRealTime()
      ->Unit(benchmark::kSecond);
}
BENCHMARK_CAPTURE(grid, qwen_7b_40_126_128,
                  GridSetting{"h100-qwen2.5-7b-fused", "h100x1", 1, 40, 126, 128})
    ->Apply(with_and_without);
BENCHMARK_CAPTURE(grid, qwen_7b_2x75_126_32,
                  GridSetting{"h100-qwen2.5-7b-fused", "h100x2", 2, 75, 126, 32})
    ->Apply(with_and_without);
BENCHMARK_CAPTURE(grid, llama_8b_75_252_32,
                  GridSetting{"h100-llama-3-8b", "h100x1", 1, 75, 252, 32})
    ->Apply(with_and_without);

}  // namespace
}  // namespace athanor
