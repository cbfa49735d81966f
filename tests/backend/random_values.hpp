// SPDX-License-Identifier: Apache-2.0
// Random numbers for tests of updates, in fp32 and rounded to bf16.
#pragma once

#include "executor/cpu/bfloat16.hpp"

#include <algorithm>
#include <random>
#include <vector>

namespace athanor::test {

/// Returns normal numbers around 0 with a standard deviation of `scale`.
inline std::vector<float> random_values(std::size_t count, unsigned seed, float scale = 1.0F) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(count);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

inline std::vector<BFloat16Bits> narrowed(const std::vector<float>& values) {
  std::vector<BFloat16Bits> narrow(values.size());
  std::transform(values.begin(), values.end(), narrow.begin(), round_to_bf16);
  return narrow;
}

inline std::vector<float> widened(const std::vector<BFloat16Bits>& values) {
  std::vector<float> wide(values.size());
  std::transform(values.begin(), values.end(), wide.begin(), widen_bf16);
  return wide;
}

}  // namespace athanor::test
