// SPDX-License-Identifier: Apache-2.0
// Speed of the engine and of the bounds on an offloaded step in which copies and CPU Adam share
// host memory. items_per_second counts simulated operations: those of the program times the steps.
#include "sim/bounds/bounds.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/simulation_options.hpp"
#include "tests/engine/programs.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>

namespace athanor {
namespace {

using test::ProgramBuilder;

/// Fetch, gather, compute, gradient copy and Adam for each of `num_operations` / 5 units.
Program offloaded_step(int num_operations) {
  constexpr int kSlots = 3;
  constexpr Bytes kChunk = 1'000'000;
  ProgramBuilder builder;
  std::vector<std::int32_t> computes;
  for (int unit = 0; unit < num_operations / 5; ++unit) {
    std::vector<std::int32_t> slot_free;
    if (unit >= kSlots) slot_free.push_back(computes[static_cast<std::size_t>(unit - kSlots)]);
    const Bytes bytes = kChunk + unit * 7919 % 500'000;
    const auto fetch = builder.copy_in(bytes, slot_free);
    const auto gather = builder.gather(bytes, {fetch});
    computes.push_back(builder.compute(2e-3, {gather}));
    const auto copy = builder.copy_out(bytes, {computes.back()});
    const auto adam = builder.adam(bytes, {copy});
    builder.after_previous(fetch, adam);
  }
  return builder.program();
}

Platform contended_platform() {
  Platform platform = test::plain_platform();
  test::share(platform, SharedResource::Scope::Node, 1.6, {Lane::H2D, Lane::D2H, Lane::CpuAdam}, 1);
  return platform;
}

void simulate(benchmark::State& state) {
  const Program program = offloaded_step(static_cast<int>(state.range(0)));
  Engine engine(contended_platform(), 1);
  SimulationOptions options;
  options.record_intervals = state.range(1) != 0;
  // A replay that records intervals takes one step more.
  const int steps =
      engine.simulate(program).intervals.back().step + (options.record_intervals ? 1 : 0);
  for (auto _ : state) benchmark::DoNotOptimize(engine.simulate(program, options).step_seconds);
  const auto operations = static_cast<std::int64_t>(program.operations.size());
  state.SetItemsProcessed(state.iterations() * operations * steps);
  state.counters["steps"] = steps;
}
BENCHMARK(simulate)
    ->ArgNames({"operations", "intervals"})
    ->ArgsProduct({{1'000, 10'000, 100'000}, {0, 1}})
    ->Unit(benchmark::kMillisecond);

void lower_bound(benchmark::State& state) {
  const Program program = offloaded_step(static_cast<int>(state.range(0)));
  const Platform platform = contended_platform();
  for (auto _ : state) benchmark::DoNotOptimize(lower_bound_seconds(program, platform));
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(lower_bound)
    ->ArgName("operations")
    ->Arg(1'000)
    ->Arg(10'000)
    ->Arg(100'000)
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace athanor
