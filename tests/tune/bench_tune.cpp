// SPDX-License-Identifier: Apache-2.0
// Speed of the search on a recorded profile: opt-30b on four GPUs.
#include "sim/model/files.hpp"
#include "sim/model/lowering.hpp"
#include "sim/tune/estimate.hpp"
#include "sim/tune/search.hpp"

#include <benchmark/benchmark.h>

#include <string>
#include <vector>

namespace athanor {
namespace {

struct Setting {
  Profile profile =
      read_profile(std::string(ATHANOR_SOURCE_DIR) + "/traces/measured/h200-opt-30b.profile.json");
  Platform platform = read_platform(std::string(ATHANOR_SOURCE_DIR) + "/platforms/h200x4.json");
  PlanRequest request{.num_gpus = 4, .global_batch = 64};
  std::vector<Candidate> candidates = [this] {
    std::vector<Candidate> all;
    enumerate(default_search_space(profile, platform, request), profile.architecture,
              request.num_gpus, [&](const Candidate& c) { all.push_back(c); });
    return all;
  }();
};

const Setting& setting() {
  static const Setting shared;
  return shared;
}

/// Memory and first bound; items are candidates.
void estimate(benchmark::State& state) {
  const Setting& s = setting();
  Estimator estimator(s.profile, s.platform, s.request);
  std::size_t next = 0;
  for (auto _ : state) {
    const Candidate& candidate = s.candidates[next++ % s.candidates.size()];
    benchmark::DoNotOptimize(estimator.peak_bytes(candidate));
    benchmark::DoNotOptimize(estimator.bound_seconds(candidate));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(estimate);

/// The bound of the lowered program, for comparison.
void refine(benchmark::State& state) {
  const Setting& s = setting();
  std::size_t next = 0;
  constexpr std::size_t kStride = 997;
  for (auto _ : state) {
    const Candidate& candidate = s.candidates[(next += kStride) % s.candidates.size()];
    const Program program = lower(s.profile, make_plan(candidate, s.profile, s.request));
    benchmark::DoNotOptimize(lower_bound_seconds(program, s.platform));
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(refine)->Unit(benchmark::kMicrosecond);

/// The whole search, by number of processes; items are candidates.
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
