// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/adam.hpp"

#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/host_copy.hpp"
#include "executor/cpu/nontemporal_store.hpp"
#include "executor/cpu/parallel_blocks.hpp"
#include "executor/cpu/target_clones.hpp"

#include <cassert>
#include <cmath>
#include <cstring>

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

void update_block(float* master, float* first, float* second, const float* gradient,
                  BFloat16Bits* rounded, std::int64_t elements, const AdamStep& k, float scale) {
  update_fp32(master, first, second, gradient, rounded, elements, k, scale);
}
void update_block(float* master, float* first, float* second, const BFloat16Bits* gradient,
                  BFloat16Bits* rounded, std::int64_t elements, const AdamStep& k, float scale) {
  update_bf16(master, first, second, gradient, rounded, elements, k, scale);
}

BFloat16Bits* rounded_at(const AdamState& state, std::int64_t begin) {
  return state.rounded.empty() ? nullptr : state.rounded.data() + begin;
}

void check_sizes([[maybe_unused]] const AdamState& state, [[maybe_unused]] std::size_t size) {
  assert(state.master.size() == size);
  assert(state.first_moment.size() == size);
  assert(state.second_moment.size() == size);
  assert(state.rounded.empty() || state.rounded.size() == size);
}

template <typename Gradient>
void update_in_place(const AdamState& state, std::span<const Gradient> gradient,
                     const AdamCoefficients& c, int threads) {
  check_sizes(state, gradient.size());
  const AdamStep step = adam_step(c);
  parallel_blocks(std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
    update_block(state.master.data() + begin, state.first_moment.data() + begin,
                 state.second_moment.data() + begin, gradient.data() + begin,
                 rounded_at(state, begin), end - begin, step, c.gradient_scale);
  });
}

/// The new state of a cache line's elements, on its way from registers to memory.
struct Line {
  static constexpr std::int64_t kElements = 16;
  alignas(64) float master[kElements], first[kElements], second[kElements];
  alignas(32) BFloat16Bits rounded[kElements];
};

template <typename Gradient>
inline __attribute__((always_inline)) void update_lines(const AdamState& old,
                                                        const AdamState& state,
                                                        const Gradient* gradient,
                                                        std::int64_t begin, std::int64_t end,
                                                        const AdamStep& k, float gradient_scale) {
  const float* const master = old.master.data();
  const float* const first = old.first_moment.data();
  const float* const second = old.second_moment.data();
  BFloat16Bits* const rounded = state.rounded.empty() ? nullptr : state.rounded.data();
  Line line;
  for (; begin < end; begin += Line::kElements) {
    for (std::int64_t i = 0; i < Line::kElements; ++i) {
      float new_first = first[begin + i];
      float new_second = second[begin + i];
      line.master[i] = adam_update(master[begin + i], new_first, new_second,
                                   to_float(gradient[begin + i]) * gradient_scale, k);
      line.first[i] = new_first;
      line.second[i] = new_second;
      line.rounded[i] = round_to_bf16(line.master[i]);
    }
    stream_line(state.master.data() + begin, line.master);
    stream_line(state.first_moment.data() + begin, line.first);
    stream_line(state.second_moment.data() + begin, line.second);
    if (rounded != nullptr) std::memcpy(rounded + begin, line.rounded, sizeof(line.rounded));
  }
}

ATHANOR_VECTOR_CLONES void update_lines_fp32(const AdamState& old, const AdamState& state,
                                             const float* gradient, std::int64_t begin,
                                             std::int64_t end, AdamStep k, float gradient_scale) {
  update_lines(old, state, gradient, begin, end, k, gradient_scale);
}

ATHANOR_VECTOR_CLONES void update_lines_bf16(const AdamState& old, const AdamState& state,
                                             const BFloat16Bits* gradient, std::int64_t begin,
                                             std::int64_t end, AdamStep k, float gradient_scale) {
  update_lines(old, state, gradient, begin, end, k, gradient_scale);
}

void update_whole_lines(const AdamState& old, const AdamState& state, const float* gradient,
                        std::int64_t begin, std::int64_t end, const AdamStep& k, float scale) {
  update_lines_fp32(old, state, gradient, begin, end, k, scale);
}
void update_whole_lines(const AdamState& old, const AdamState& state, const BFloat16Bits* gradient,
                        std::int64_t begin, std::int64_t end, const AdamStep& k, float scale) {
  update_lines_bf16(old, state, gradient, begin, end, k, scale);
}

template <typename Gradient>
void update_beside(const AdamState& old, const AdamState& state, std::span<const Gradient> gradient,
                   const AdamCoefficients& c, int threads) {
  check_sizes(old, gradient.size());
  check_sizes(state, gradient.size());
  const AdamStep step = adam_step(c);
  parallel_blocks(std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t lines_end = end - (end - begin) % Line::kElements;
    update_whole_lines(old, state, gradient.data(), begin, lines_end, step, c.gradient_scale);
    finish_streams();
    const Bytes rest = (end - lines_end) * static_cast<Bytes>(sizeof(float));
    host_copy(state.master.data() + lines_end, old.master.data() + lines_end, rest);
    host_copy(state.first_moment.data() + lines_end, old.first_moment.data() + lines_end, rest);
    host_copy(state.second_moment.data() + lines_end, old.second_moment.data() + lines_end, rest);
    update_block(state.master.data() + lines_end, state.first_moment.data() + lines_end,
                 state.second_moment.data() + lines_end, gradient.data() + lines_end,
                 rounded_at(state, lines_end), end - lines_end, step, c.gradient_scale);
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
  update_in_place(state, gradient, c, threads);
}

void adamw(const AdamState& state, std::span<const BFloat16Bits> gradient,
           const AdamCoefficients& c, int threads) {
  update_in_place(state, gradient, c, threads);
}

void adamw_beside(const AdamState& old, const AdamState& state, std::span<const float> gradient,
                  const AdamCoefficients& c, int threads) {
  update_beside(old, state, gradient, c, threads);
}

void adamw_beside(const AdamState& old, const AdamState& state,
                  std::span<const BFloat16Bits> gradient, const AdamCoefficients& c, int threads) {
  update_beside(old, state, gradient, c, threads);
}

void convert_to_bf16(std::span<const float> from, std::span<BFloat16Bits> to, int threads) {
  assert(from.size() == to.size());
  parallel_blocks(std::ssize(from), threads, [&](std::int64_t begin, std::int64_t end) {
    round_all(from.data() + begin, to.data() + begin, end - begin);
  });
}

}  // namespace athanor
