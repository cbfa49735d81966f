// SPDX-License-Identifier: Apache-2.0
// AdamW on flat shards (Loshchilov & Hutter 2019, Algorithm 2). Element-wise and compiled without
// contraction, so the bits do not depend on vector width, thread count or how a shard was cut.
#pragma once

#include "executor/cpu/adam_step.hpp"
#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/split_master.hpp"

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

/// Pointers to a shard's state: the fp32 master parameters and Adam's two moments, each as long as
/// the shard. Where parameters are bf16 the master is split (split_master.hpp).
struct AdamStateView {
  float* master = nullptr;                                  ///< whole; null where it is split
  BFloat16Bits* parameters = nullptr;                       ///< the upper halves of a split master
  std::int16_t* rests = nullptr;                            ///< its lower halves
  float *first_moment = nullptr, *second_moment = nullptr;  ///< null where they are bf16
  BFloat16Bits *first_moment_bf16 = nullptr, *second_moment_bf16 = nullptr;
  bool operator==(const AdamStateView&) const = default;

  [[nodiscard]] bool is_split() const noexcept { return master == nullptr; }
  [[nodiscard]] bool has_bf16_moments() const noexcept { return first_moment_bf16 != nullptr; }
  [[nodiscard]] bool has_moments() const noexcept {
    return first_moment != nullptr || has_bf16_moments();
  }
  /// Returns the state from `element` on.
  [[nodiscard]] AdamStateView starting_at(std::int64_t element) const noexcept;
};

/// Calls body(array of `to`, array of `from`) for every array but the parameters of two states of
/// one kind.
template <typename Body>
void for_each_array(const AdamStateView& to, const AdamStateView& from, Body body) {
  if (to.is_split()) body(to.rests, from.rests);
  if (to.has_bf16_moments()) {
    body(to.first_moment_bf16, from.first_moment_bf16);
    body(to.second_moment_bf16, from.second_moment_bf16);
  } else {
    body(to.first_moment, from.first_moment);
    body(to.second_moment, from.second_moment);
  }
}

/// Updates `state` from the gradient, which is as long as the shard, with `threads` host threads. A
/// bf16 gradient updates a split master.
void adamw(const AdamStateView& state, std::span<const float> gradient, const AdamCoefficients& c,
           int threads);
void adamw(const AdamStateView& state, std::span<const BFloat16Bits> gradient,
           const AdamCoefficients& c, int threads);

/// Does the update of adamw() from the state in `from` and writes the new state to `to`. It is
/// stored past the caches, so the update moves as many bytes as in place. Split states may have the
/// same parameters; all else in `from` stays as it is. `old_parameters` receives a split state's
/// old ones; it may be null.
void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const float> gradient, const AdamCoefficients& c, int threads,
                        BFloat16Bits* old_parameters = nullptr);
void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const BFloat16Bits> gradient, const AdamCoefficients& c,
                        int threads, BFloat16Bits* old_parameters = nullptr);

}  // namespace athanor
