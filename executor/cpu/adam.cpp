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

/// Writes the new parameters to `rounded`, too, while they are in registers; it may be null.
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

BFloat16Bits* rounded_at(BFloat16Bits* rounded, std::int64_t begin) {
  return rounded == nullptr ? nullptr : rounded + begin;
}

template <typename Gradient>
void update_in_place(const AdamStateView& state, std::span<const Gradient> gradient,
                     const AdamCoefficients& c, int threads, BFloat16Bits* rounded) {
  const AdamStep step = adam_step(c);
  parallel_blocks(std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
    update_block(state.master + begin, state.first_moment + begin, state.second_moment + begin,
                 gradient.data() + begin, rounded_at(rounded, begin), end - begin, step,
                 c.gradient_scale);
  });
}

/// New state of a cache line's elements, on its way from registers to memory.
struct Line {
  static constexpr std::int64_t kElements = 16;
  alignas(64) float master[kElements], first[kElements], second[kElements];
  alignas(32) BFloat16Bits rounded[kElements];
};

template <typename Gradient>
inline __attribute__((always_inline)) void update_lines(const AdamStateView& from,
                                                        const AdamStateView& to,
                                                        const Gradient* gradient,
                                                        BFloat16Bits* rounded, std::int64_t begin,
                                                        std::int64_t end, const AdamStep& k,
                                                        float gradient_scale) {
  const float* const master = from.master;
  const float* const first = from.first_moment;
  const float* const second = from.second_moment;
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
    stream_line(to.master + begin, line.master);
    stream_line(to.first_moment + begin, line.first);
    stream_line(to.second_moment + begin, line.second);
    if (rounded != nullptr) std::memcpy(rounded + begin, line.rounded, sizeof(line.rounded));
  }
}

ATHANOR_VECTOR_CLONES void update_lines_fp32(const AdamStateView& from, const AdamStateView& to,
                                             const float* gradient, BFloat16Bits* rounded,
                                             std::int64_t begin, std::int64_t end, AdamStep k,
                                             float gradient_scale) {
  update_lines(from, to, gradient, rounded, begin, end, k, gradient_scale);
}

ATHANOR_VECTOR_CLONES void update_lines_bf16(const AdamStateView& from, const AdamStateView& to,
                                             const BFloat16Bits* gradient, BFloat16Bits* rounded,
                                             std::int64_t begin, std::int64_t end, AdamStep k,
                                             float gradient_scale) {
  update_lines(from, to, gradient, rounded, begin, end, k, gradient_scale);
}

void update_whole_lines(const AdamStateView& from, const AdamStateView& to, const float* gradient,
                        BFloat16Bits* rounded, std::int64_t begin, std::int64_t end,
                        const AdamStep& k, float scale) {
  update_lines_fp32(from, to, gradient, rounded, begin, end, k, scale);
}
void update_whole_lines(const AdamStateView& from, const AdamStateView& to,
                        const BFloat16Bits* gradient, BFloat16Bits* rounded, std::int64_t begin,
                        std::int64_t end, const AdamStep& k, float scale) {
  update_lines_bf16(from, to, gradient, rounded, begin, end, k, scale);
}

template <typename Gradient>
void update_out_of_place(const AdamStateView& from, const AdamStateView& to,
                         std::span<const Gradient> gradient, const AdamCoefficients& c, int threads,
                         BFloat16Bits* rounded) {
  const AdamStep step = adam_step(c);
  parallel_blocks(std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t lines_end = end - (end - begin) % Line::kElements;
    update_whole_lines(from, to, gradient.data(), rounded, begin, lines_end, step,
                       c.gradient_scale);
    finish_streams();
    const Bytes rest = (end - lines_end) * static_cast<Bytes>(sizeof(float));
    host_copy(to.master + lines_end, from.master + lines_end, rest);
    host_copy(to.first_moment + lines_end, from.first_moment + lines_end, rest);
    host_copy(to.second_moment + lines_end, from.second_moment + lines_end, rest);
    update_block(to.master + lines_end, to.first_moment + lines_end, to.second_moment + lines_end,
                 gradient.data() + lines_end, rounded_at(rounded, lines_end), end - lines_end, step,
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

void adamw(const AdamStateView& state, std::span<const float> gradient, const AdamCoefficients& c,
           int threads, BFloat16Bits* rounded) {
  update_in_place(state, gradient, c, threads, rounded);
}

void adamw(const AdamStateView& state, std::span<const BFloat16Bits> gradient,
           const AdamCoefficients& c, int threads, BFloat16Bits* rounded) {
  update_in_place(state, gradient, c, threads, rounded);
}

void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const float> gradient, const AdamCoefficients& c, int threads,
                        BFloat16Bits* rounded) {
  update_out_of_place(from, to, gradient, c, threads, rounded);
}

void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const BFloat16Bits> gradient, const AdamCoefficients& c,
                        int threads, BFloat16Bits* rounded) {
  update_out_of_place(from, to, gradient, c, threads, rounded);
}

void convert_to_bf16(std::span<const float> from, std::span<BFloat16Bits> to, int threads) {
  assert(from.size() == to.size());
  parallel_blocks(std::ssize(from), threads, [&](std::int64_t begin, std::int64_t end) {
    round_all(from.data() + begin, to.data() + begin, end - begin);
  });
}

}  // namespace athanor
