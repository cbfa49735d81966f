// SPDX-License-Identifier: Apache-2.0
// AdamW on flat shards (Loshchilov & Hutter 2019, Algorithm 2). Element-wise and compiled without
// contraction, so the bits do not depend on vector width, thread count or how a shard was cut.
#pragma once

#include "executor/cpu/adam_step.hpp"
#include "executor/cpu/bfloat16.hpp"

#include <cstdint>
#include <span>

namespace athanor {

/// The hyperparameters of one update.
struct AdamCoefficients {
  float learning_rate = 1e-3F;
  float beta1 = 0.9F;
  float beta2 = 0.999F;
  float epsilon = 1e-8F;
  float weight_decay = 0.0F;    ///< decoupled: p -= lr * decay * p
  float gradient_scale = 1.0F;  ///< clipping factor
  std::int64_t step = 1;        ///< 1 for the first update (bias correction)
};

/// Consecutive elements of a shard, all of which decay or none.
struct AdamSegment {
  std::int64_t begin = 0, end = 0;
  bool decays = false;
};

/// Computes the constants of one update, for any processor.
[[nodiscard]] AdamStep adam_step(const AdamCoefficients& coefficients);

/// Pointers to a shard's fp32 state: the master parameters and Adam's two moments. All three have
/// as many elements as the shard and do not overlap.
struct AdamStateView {
  float *master = nullptr, *first_moment = nullptr, *second_moment = nullptr;
  bool operator==(const AdamStateView&) const = default;
};

/// Updates `state` from the gradient, which is as long as the shard, with `threads` host threads.
/// `rounded` receives the new parameters in bf16; it may be null.
void adamw(const AdamStateView& state, std::span<const float> gradient, const AdamCoefficients& c,
           int threads, BFloat16Bits* rounded = nullptr);
void adamw(const AdamStateView& state, std::span<const BFloat16Bits> gradient,
           const AdamCoefficients& c, int threads, BFloat16Bits* rounded = nullptr);

/// Does the update of adamw() from the state in `from`, which stays as it is, and writes the new
/// state to `to`. It is stored past the caches, so the update moves as many bytes as in place.
void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const float> gradient, const AdamCoefficients& c, int threads,
                        BFloat16Bits* rounded = nullptr);
void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const BFloat16Bits> gradient, const AdamCoefficients& c,
                        int threads, BFloat16Bits* rounded = nullptr);

/// Rounds fp32 to bf16, to nearest even; NaN stays NaN. Both spans have the same length.
void convert_to_bf16(std::span<const float> from, std::span<BFloat16Bits> to, int threads);

}  // namespace athanor
