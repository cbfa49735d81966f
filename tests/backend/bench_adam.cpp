// SPDX-License-Identifier: Apache-2.0
// Benchmarks of host AdamW on bf16 gradients, in place and out of place, and of a loop that only
// reads and writes: by threads, in memory as training allocates it, far larger than caches. Bytes
// count what an update has to move: 26 an element, 18 where moments are bf16, and 14 where they are
// int8.
#include "executor/backend/host_memory.hpp"
#include "executor/cpu/adam.hpp"
#include "executor/cpu/parallel_blocks.hpp"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace athanor {
namespace {

constexpr std::int64_t kElements = 1 << 25;
constexpr std::int64_t kBytesPerElement = 6 * 4 + 2;
constexpr std::int64_t kBytesWithBf16Moments = 2 * 4 + 4 * 2 + 2;
constexpr std::int64_t kBytesWithInt8Moments = 2 * 4 + 4 * 1 + 2;

/// Memory for `kElements` values.
template <typename Value>
class Array {
 public:
  Array() : memory_(allocate_host_memory(kElements * static_cast<Bytes>(sizeof(Value)))) {}
  [[nodiscard]] std::span<Value> values() const {
    return {reinterpret_cast<Value*>(memory_.get()), static_cast<std::size_t>(kElements)};
  }

 private:
  MemoryBlock memory_;
};

Array<float> random_floats(float scale) {
  // Normal values in a short cycle: drawing them all would take longer than measuring.
  constexpr std::int64_t kDrawn = 1 << 16;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, scale);
  Array<float> array;
  const std::span<float> values = array.values();
  std::generate_n(values.begin(), kDrawn, [&] { return normal(random); });
  for (std::size_t i = kDrawn; i < values.size(); ++i) values[i] = values[i - kDrawn];
  return array;
}

struct Shard {
  Array<BFloat16Bits> parameters;
  Array<std::int16_t> rests;
  Array<float> first = random_floats(1e-3F), second = random_floats(1e-3F);

  Shard() {
    split_masters(random_floats(0.02F).values(), parameters.values(), rests.values(), 1);
    for (float& value : second.values()) value *= value;
  }
  [[nodiscard]] AdamStateView state() const {
    return {.parameters = parameters.values().data(),
            .rests = rests.values().data(),
            .first_moment = first.values().data(),
            .second_moment = second.values().data()};
  }
};

Array<BFloat16Bits> rounded(const Array<float>& values) {
  Array<BFloat16Bits> narrow;
  round_to_parameters(values.values(), narrow.values(), 1);
  return narrow;
}

Array<BFloat16Bits> random_gradient() { return rounded(random_floats(1e-3F)); }

std::span<const BFloat16Bits> view(const Array<BFloat16Bits>& gradient) {
  return gradient.values();
}

void count_bytes(benchmark::State& state, std::int64_t bytes_per_element) {
  state.SetItemsProcessed(state.iterations() * kElements);
  state.SetBytesProcessed(state.iterations() * kElements * bytes_per_element);
}

void adam_in_place(benchmark::State& state) {
  const Shard shard;
  const Array<BFloat16Bits> gradient = random_gradient();
  const int threads = static_cast<int>(state.range(0));
  for (auto _ : state) {
    adamw(shard.state(), view(gradient), AdamCoefficients{}, threads);
  }
  count_bytes(state, kBytesPerElement);
}

void adam_with_bf16_moments(benchmark::State& state) {
  const Shard shard;
  const Array<BFloat16Bits> first = rounded(shard.first), second = rounded(shard.second);
  const Array<BFloat16Bits> gradient = random_gradient();
  const int threads = static_cast<int>(state.range(0));
  const AdamStateView view_of_state{.parameters = shard.parameters.values().data(),
                                    .rests = shard.rests.values().data(),
                                    .first_moment_bf16 = first.values().data(),
                                    .second_moment_bf16 = second.values().data()};
  for (auto _ : state) {
    adamw(view_of_state, view(gradient), AdamCoefficients{}, threads);
  }
  count_bytes(state, kBytesWithBf16Moments);
}

void adam_with_int8_moments(benchmark::State& state) {
  const Shard shard;
  const Array<std::uint8_t> first, second;
  const Array<MomentScales> scales;  // more than there are
  encode_first_moments(shard.first.values(), first.values().data(), scales.values().data());
  encode_second_moments(shard.second.values(), second.values().data(), scales.values().data());
  const Array<BFloat16Bits> gradient = random_gradient();
  const int threads = static_cast<int>(state.range(0));
  const AdamStateView view_of_state{.parameters = shard.parameters.values().data(),
                                    .rests = shard.rests.values().data(),
                                    .first_moment_int8 = first.values().data(),
                                    .second_moment_int8 = second.values().data(),
                                    .scales = scales.values().data()};
  const std::vector<AdamSegment> all{{0, kElements, true}};
  for (auto _ : state) {
    adamw_in_blocks(view_of_state, view_of_state, view(gradient), all, AdamCoefficients{}, threads);
  }
  count_bytes(state, kBytesWithInt8Moments);
}

void adam_out_of_place(benchmark::State& state) {
  const Shard shard, other;
  const Array<BFloat16Bits> gradient = random_gradient();
  const int threads = static_cast<int>(state.range(0));
  const Shard *old = &shard, *updated = &other;
  BFloat16Bits* const parameters = shard.parameters.values().data();
  for (auto _ : state) {
    AdamStateView to = updated->state();
    BFloat16Bits* const old_parameters = std::exchange(to.parameters, parameters);
    AdamStateView from = old->state();
    from.parameters = parameters;
    adamw_out_of_place(from, to, view(gradient), AdamCoefficients{}, threads, old_parameters);
    std::swap(old, updated);
  }
  count_bytes(state, kBytesPerElement);
}

/// Reads and writes as many bytes as the state has.
void memory_read_and_written(benchmark::State& state) {
  const Array<float> first = random_floats(1), second = random_floats(1), third = random_floats(1);
  const int threads = static_cast<int>(state.range(0));
  const std::span<float> arrays[] = {first.values(), second.values(), third.values()};
  for (auto _ : state) {
    parallel_blocks(std::ssize(arrays[0]), threads, [&](std::int64_t begin, std::int64_t end) {
      const auto at = static_cast<std::size_t>(begin);
      for (const std::span<float> array : arrays) {
        for (float& value : array.subspan(at, static_cast<std::size_t>(end) - at)) value += 1;
      }
    });
    benchmark::ClobberMemory();
  }
  count_bytes(state, 2 * 3 * std::int64_t{sizeof(float)});
}

void one_and_all_threads(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("threads")->Unit(benchmark::kMillisecond)->UseRealTime();
  const int cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  benchmark->Arg(1);
  if (cores > 1) benchmark->Arg(cores);
}
BENCHMARK(memory_read_and_written)->Apply(one_and_all_threads);
BENCHMARK(adam_in_place)->Apply(one_and_all_threads);
BENCHMARK(adam_with_bf16_moments)->Apply(one_and_all_threads);
BENCHMARK(adam_with_int8_moments)->Apply(one_and_all_threads);
BENCHMARK(adam_out_of_place)->Apply(one_and_all_threads);

}  // namespace
}  // namespace athanor
