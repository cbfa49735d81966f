// SPDX-License-Identifier: Apache-2.0
// Sums over gradients: accumulation, and the exact sum of squares. Compiled without contraction.
#pragma once

#include "executor/cpu/bfloat16.hpp"

#include <span>

namespace athanor {

/// Adds `addend` to `accumulator`, element by element. bf16 is widened first. Both have the same
/// length.
void accumulate(std::span<float> accumulator, std::span<const float> addend);
void accumulate(std::span<float> accumulator, std::span<const BFloat16Bits> addend);

/// A sum in double-double arithmetic: high + low. Its error (about 2^-100) is far below fp32's
/// last bit, so a norm does not depend on how the gradient was cut into shards.
struct ExactSum {
  double high = 0, low = 0;
  void add(double value) noexcept;
  void add(const ExactSum& other) noexcept;
};

/// Returns the sum of squares, found by `threads` host threads. A square of an fp32 is exact in
/// double.
[[nodiscard]] ExactSum square_sum(std::span<const float> values, int threads = 1);
[[nodiscard]] ExactSum square_sum(std::span<const BFloat16Bits> values, int threads = 1);

}  // namespace athanor
