// SPDX-License-Identifier: Apache-2.0
#include "executor/lanes/adam.hpp"

#include "executor/lanes/bfloat16.hpp"
#include "executor/lanes/parallel_blocks.hpp"
#include "executor/lanes/vector_clones.hpp"

#include <cassert>
#include <cmath>

namespace athanor {
namespace {

inline float to_float(float value) noexcept { return value; }
inline float to_float(BFloat16Bits value) noexcept { return widen_bf16(value); }

/// `rounded` may be null: there the new parameters go in bf16, while they are at hand.
template <typename Gradient>
inline __attribute__((always_inline)) void update(float* __restrict master, float* __restrict first,
                                                  float* __restrict second,
                                                  const Gradient* __restrict gradient,
                                                  BFloat16Bits* __restrict rounded,
                                                  std::int64_t elements, const AdamStep& k,
                                                  float gradient_scale) {
  if (rounded == nullptr) {
    for (std::int64_t i = 0; i < elements; ++i) {
      master[i] =
          adam_update(master[i], first[i], second[i], to_float(gradient[i]) * gradient_scale, k);
    }
    return;
  }
  for (std::int64_t i = 0; i < elements; ++i) {
    const float updated =
        adam_update(master[i], first[i], second[i], to_float(gradient[i]) * gradient_scale, k);
    master[i] = updated;
    rounded[i] = round_to_bf16(updated);
  }
}

ATHANOR_VECTOR_CLONES void update_fp32(float* master, float* first, float* second,
                                       const float* gradient, BFloat16Bits* rounded,
                                       std::int64_t elements, AdamStep k, float gradient_scale) {
  update(master, first, second, gradient, rounded, elements, k, gradient_scale);
}

ATHANOR_VECTOR_CLONES void update_bf16(float* master, float* first, float* second,
                                       const BFloat16Bits* gradient, BFloat16Bits* rounded,
                                       std::int64_t elements, AdamStep k, float gradient_scale) {
  update(master, first, second, gradient, rounded, elements, k, gradient_scale);
}

ATHANOR_VECTOR_CLONES void round_all(const float* __restrict from, BFloat16Bits* __restrict to,
                                     std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    to[i] = round_to_bf16(from[i]);
  }
}

template <typename Gradient, typename Update>
void run_update(const AdamState& state, std::span<const Gradient> gradient,
                const AdamCoefficients& c, int threads, Update update_block) {
  assert(state.first_moment.size() == state.master.size());
  assert(state.second_moment.size() == state.master.size());
  assert(gradient.size() == state.master.size());
  assert(state.rounded.empty() || state.rounded.size() == state.master.size());
  const AdamStep step = adam_step(c);
  BFloat16Bits* const rounded = state.rounded.empty() ? nullptr : state.rounded.data();
  parallel_blocks(std::ssize(state.master), threads, [&](std::int64_t begin, std::int64_t end) {
    update_block(state.master.data() + begin, state.first_moment.data() + begin,
                 state.second_moment.data() + begin, gradient.data() + begin,
                 rounded == nullptr ? nullptr : rounded + begin, end - begin, step,
                 c.gradient_scale);
  });
}

}  // namespace

AdamStep adam_step(const AdamCoefficients& c) {
  const double beta1 = c.beta1;
  const double beta2 = c.beta2;
  const auto step = static_cast<double>(c.step);
  const double learning_rate = c.learning_rate;
  return {
      .decay = static_cast<float>(1.0 - learning_rate * c.weight_decay),
      .beta1 = c.beta1,
      .one_minus_beta1 = static_cast<float>(1.0 - beta1),
      .beta2 = c.beta2,
      .one_minus_beta2 = static_cast<float>(1.0 - beta2),
      .step_size = static_cast<float>(learning_rate / (1.0 - std::pow(beta1, step))),
      .root_bias_correction2 = static_cast<float>(std::sqrt(1.0 - std::pow(beta2, step))),
      .epsilon = c.epsilon,
  };
}

void adamw(const AdamState& state, std::span<const float> gradient, const AdamCoefficients& c,
           int threads) {
  run_update(state, gradient, c, threads, update_fp32);
}

void adamw(const AdamState& state, std::span<const BFloat16Bits> gradient,
           const AdamCoefficients& c, int threads) {
  run_update(state, gradient, c, threads, update_bf16);
}

void convert_to_bf16(std::span<const float> from, std::span<BFloat16Bits> to, int threads) {
  assert(from.size() == to.size());
  parallel_blocks(std::ssize(from), threads, [&](std::int64_t begin, std::int64_t end) {
    round_all(from.data() + begin, to.data() + begin, end - begin);
  });
}

}  // namespace athanor
