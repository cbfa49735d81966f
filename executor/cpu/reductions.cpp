// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/reductions.hpp"

#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/parallel_blocks.hpp"
#include "executor/cpu/target_clones.hpp"

#include <array>
#include <cassert>
#include <map>
#include <mutex>

namespace athanor {
namespace {

/// Number of independent partial sums: the additions of one do not wait for those of another.
constexpr std::int64_t kPartials = 32;

struct Partials {
  std::array<double, kPartials> high{}, low{};
};

/// Adds squares by Knuth's two-sum: high + value = sum + error exactly, and the error goes to low.
template <typename Value>
inline __attribute__((always_inline)) void add_squares(Partials& sums,
                                                       const Value* __restrict values,
                                                       std::int64_t elements) {
  for (std::int64_t base = 0; base < elements; base += kPartials) {
    for (std::int64_t lane = 0; lane < kPartials; ++lane) {
      const double value = to_float(values[base + lane]);
      const double square = value * value;
      const double high = sums.high[lane];
      const double sum = high + square;
      const double rest = sum - high;
      sums.low[lane] += (high - (sum - rest)) + (square - rest);
      sums.high[lane] = sum;
    }
  }
}

ATHANOR_VECTOR_CLONES void add_squares_fp32(Partials& sums, const float* values,
                                            std::int64_t elements) {
  add_squares(sums, values, elements);
}

ATHANOR_VECTOR_CLONES void add_squares_bf16(Partials& sums, const BFloat16Bits* values,
                                            std::int64_t elements) {
  add_squares(sums, values, elements);
}

template <typename Value, typename AddSquares>
ExactSum sum_of_block(std::span<const Value> values, AddSquares add_whole_blocks) {
  const std::int64_t whole = std::ssize(values) / kPartials * kPartials;
  Partials sums;
  add_whole_blocks(sums, values.data(), whole);
  ExactSum total;
  for (std::int64_t lane = 0; lane < kPartials; ++lane) {
    total.add(ExactSum{sums.high[lane], sums.low[lane]});
  }
  for (const Value value : values.subspan(whole)) {
    const double wide = to_float(value);
    total.add(wide * wide);
  }
  return total;
}

/// Sums blocks on any thread, and adds the blocks in their order.
template <typename Value, typename AddSquares>
ExactSum run_square_sum(std::span<const Value> values, int threads, AddSquares add_whole_blocks) {
  std::mutex mutex;
  std::map<std::int64_t, ExactSum> sums;
  parallel_blocks(std::ssize(values), threads, [&](std::int64_t begin, std::int64_t end) {
    const ExactSum sum = sum_of_block(
        values.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin)),
        add_whole_blocks);
    const std::lock_guard lock(mutex);
    sums[begin] = sum;
  });
  ExactSum total;
  for (const auto& [begin, sum] : sums) total.add(sum);
  return total;
}

ATHANOR_VECTOR_CLONES void add_fp32(float* __restrict to, const float* __restrict from,
                                    std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    to[i] += from[i];
  }
}

ATHANOR_VECTOR_CLONES void add_bf16(float* __restrict to, const BFloat16Bits* __restrict from,
                                    std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    to[i] += widen_bf16(from[i]);
  }
}

}  // namespace

void accumulate(std::span<float> accumulator, std::span<const float> addend) {
  assert(accumulator.size() == addend.size());
  add_fp32(accumulator.data(), addend.data(), std::ssize(addend));
}

void accumulate(std::span<float> accumulator, std::span<const BFloat16Bits> addend) {
  assert(accumulator.size() == addend.size());
  add_bf16(accumulator.data(), addend.data(), std::ssize(addend));
}

void ExactSum::add(double value) noexcept {
  const double sum = high + value;
  const double rest = sum - high;
  low += (high - (sum - rest)) + (value - rest);
  high = sum;
}

void ExactSum::add(const ExactSum& other) noexcept {
  add(other.high);
  add(other.low);
}

ExactSum square_sum(std::span<const float> values, int threads) {
  return run_square_sum(values, threads, add_squares_fp32);
}

ExactSum square_sum(std::span<const BFloat16Bits> values, int threads) {
  return run_square_sum(values, threads, add_squares_bf16);
}

}  // namespace athanor
