// SPDX-License-Identifier: Apache-2.0
// AdamW on flat shards (Loshchilov & Hutter 2019, Algorithm 2). Element-wise and compiled without
// contraction, so the bits do not depend on vector width, thread count or how a shard was cut.
#pragma once

#include "executor/cpu/adam_step.hpp"
#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/block_moments.hpp"
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
  float *first_moment = nullptr, *second_moment = nullptr;  ///< null where narrower
  BFloat16Bits *first_moment_bf16 = nullptr, *second_moment_bf16 = nullptr;
  std::uint8_t *first_moment_int8 = nullptr, *second_moment_int8 = nullptr;
  MomentScales* scales = nullptr;  ///< one for every kMomentBlock elements, beside int8
  bool operator==(const AdamStateView&) const = default;

  [[nodiscard]] bool is_split() const noexcept { return master == nullptr; }
  [[nodiscard]] bool has_bf16_moments() const noexcept { return first_moment_bf16 != nullptr; }
  [[nodiscard]] bool has_int8_moments() const noexcept { return first_moment_int8 != nullptr; }
  [[nodiscard]] bool has_moments() const noexcept {
    return first_moment != nullptr || has_bf16_moments() || has_int8_moments();
  }
  /// Returns the state from `element` on. In int8 that is a block's first.
  [[nodiscard]] AdamStateView starting_at(std::int64_t element) const noexcept;
};

/// Calls body(array of `to`, array of `from`, its elements) for every array but the parameters of
/// two states of one kind, which have `elements` elements.
template <typename Body>
void for_each_array(const AdamStateView& to, const AdamStateView& from, std::int64_t elements,
                    Body body) {
  if (to.is_split()) body(to.rests, from.rests, elements);
  if (to.has_int8_moments()) {
    body(to.first_moment_int8, from.first_moment_int8, elements);
    body(to.second_moment_int8, from.second_moment_int8, elements);
    body(to.scales, from.scales, elements / kMomentBlock);
  } else if (to.has_bf16_moments()) {
    body(to.first_moment_bf16, from.first_moment_bf16, elements);
    body(to.second_moment_bf16, from.second_moment_bf16, elements);
  } else {
    body(to.first_moment, from.first_moment, elements);
    body(to.second_moment, from.second_moment, elements);
  }
}

/// Calls body likewise for every array, the parameters first.
template <typename Body>
void for_each_state_array(const AdamStateView& to, const AdamStateView& from, std::int64_t elements,
                          Body body) {
  if (to.is_split()) {
    body(to.parameters, from.parameters, elements);
  } else {
    body(to.master, from.master, elements);
  }
  for_each_array(to, from, elements, body);
}

/// Updates `state` from the gradient, which is as long as the shard, with `threads` host threads. A
/// bf16 gradient updates a split master.
void adamw(const AdamStateView& state, std::span<const float> gradient, const AdamCoefficients& c,
           int threads);
void adamw(const AdamStateView& state, std::span<const BFloat16Bits> gradient,
           const AdamCoefficients& c, int threads);

/// Updates as above on this thread, with constants that are known already.
void adamw(const AdamStateView& state, std::span<const float> gradient, const AdamStep& step,
           float gradient_scale);
void adamw(const AdamStateView& state, std::span<const BFloat16Bits> gradient, const AdamStep& step,
           float gradient_scale);

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

/// Updates a state with moments in int8, in place or out of place. Segments are in order; those
/// that do not decay pass over `c.weight_decay`. Whole blocks are written, of which elements
/// outside of all segments keep their numbers.
void adamw_in_blocks(const AdamStateView& from, const AdamStateView& to,
                     std::span<const float> gradient, std::span<const AdamSegment> segments,
                     const AdamCoefficients& c, int threads,
                     BFloat16Bits* old_parameters = nullptr);
void adamw_in_blocks(const AdamStateView& from, const AdamStateView& to,
                     std::span<const BFloat16Bits> gradient, std::span<const AdamSegment> segments,
                     const AdamCoefficients& c, int threads,
                     BFloat16Bits* old_parameters = nullptr);

}  // namespace athanor
