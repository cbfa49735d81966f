// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/rank_order_sum.hpp"

#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/target_clones.hpp"

#include <algorithm>
#include <array>
#include <type_traits>

namespace athanor {
namespace {

/// Elements of a block, few enough for the first-level cache.
constexpr std::int64_t kBlock = 2048;

template <typename Value>
inline __attribute__((always_inline)) void load(float* __restrict sum,
                                                const Value* __restrict values,
                                                std::int64_t elements, bool add) {
  const auto widen = [](Value value) {
    if constexpr (std::is_same_v<Value, float>) {
      return value;
    } else {
      return widen_bf16(value);
    }
  };
  if (add) {
    for (std::int64_t i = 0; i < elements; ++i) {
      sum[i] += widen(values[i]);
    }
  } else {
    for (std::int64_t i = 0; i < elements; ++i) {
      sum[i] = widen(values[i]);
    }
  }
}

ATHANOR_VECTOR_CLONES void load_fp32(float* sum, const float* values, std::int64_t n, bool add) {
  load(sum, values, n, add);
}

ATHANOR_VECTOR_CLONES void load_bf16(float* sum, const std::uint16_t* values, std::int64_t n,
                                     bool add) {
  load(sum, values, n, add);
}

ATHANOR_VECTOR_CLONES void store_bf16(std::uint16_t* __restrict to, const float* __restrict sum,
                                      std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    to[i] = round_to_bf16(sum[i]);
  }
}

/// Sums block by block, so that every part is read once from memory and `to` written once.
template <typename Value, typename Load, typename Store>
void sum_blocks(Value* to, std::span<const void* const> parts, std::int64_t elements,
                Load load_block, Store store_block) {
  std::array<float, kBlock> sum;
  for (std::int64_t begin = 0; begin < elements; begin += kBlock) {
    const std::int64_t count = std::min(kBlock, elements - begin);
    for (std::size_t part = 0; part < parts.size(); ++part) {
      load_block(sum.data(), static_cast<const Value*>(parts[part]) + begin, count, part > 0);
    }
    store_block(to + begin, sum.data(), count);
  }
}

}  // namespace

void rank_order_sum(void* to, std::span<const void* const> parts, std::int64_t elements,
                    DataType dtype) {
  if (dtype == DataType::Float32) {
    sum_blocks(static_cast<float*>(to), parts, elements, load_fp32,
               [](float* out, const float* sum, std::int64_t n) { std::copy_n(sum, n, out); });
  } else {
    sum_blocks(static_cast<std::uint16_t*>(to), parts, elements, load_bf16, store_bf16);
  }
}

}  // namespace athanor
