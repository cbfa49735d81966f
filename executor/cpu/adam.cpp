// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/adam.hpp"

#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/host_copy.hpp"
#include "executor/cpu/nontemporal_store.hpp"
#include "executor/cpu/parallel_blocks.hpp"
#include "executor/cpu/split_master.hpp"
#include "executor/cpu/target_clones.hpp"

#include <cassert>
#include <cmath>
#include <cstring>

namespace athanor {
namespace {

ATHANOR_VECTOR_CLONES void update_whole(float* __restrict master, float* __restrict first,
                                        float* __restrict second, const float* __restrict gradient,
                                        std::int64_t elements, AdamStep k, float gradient_scale) {
  for (std::int64_t i = 0; i < elements; ++i) {
    master[i] = adam_update(master[i], first[i], second[i], gradient[i] * gradient_scale, k);
  }
}

template <typename Gradient>
inline __attribute__((always_inline)) void update_split(
    BFloat16Bits* __restrict parameters, std::int16_t* __restrict rests, float* __restrict first,
    float* __restrict second, const Gradient* __restrict gradient, std::int64_t elements,
    const AdamStep& k, float gradient_scale) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const SplitMaster updated =
        split_master(adam_update(join_master(parameters[i], rests[i]), first[i], second[i],
                                 to_float(gradient[i]) * gradient_scale, k));
    parameters[i] = updated.parameter;
    rests[i] = updated.rest;
  }
}

ATHANOR_VECTOR_CLONES void update_split_fp32(BFloat16Bits* parameters, std::int16_t* rests,
                                             float* first, float* second, const float* gradient,
                                             std::int64_t elements, AdamStep k,
                                             float gradient_scale) {
  update_split(parameters, rests, first, second, gradient, elements, k, gradient_scale);
}

ATHANOR_VECTOR_CLONES void update_split_bf16(BFloat16Bits* parameters, std::int16_t* rests,
                                             float* first, float* second,
                                             const BFloat16Bits* gradient, std::int64_t elements,
                                             AdamStep k, float gradient_scale) {
  update_split(parameters, rests, first, second, gradient, elements, k, gradient_scale);
}

void update_block(const AdamStateView& s, const float* gradient, std::int64_t elements,
                  const AdamStep& k, float scale) {
  if (s.is_split()) {
    update_split_fp32(s.parameters, s.rests, s.first_moment, s.second_moment, gradient, elements, k,
                      scale);
  } else {
    update_whole(s.master, s.first_moment, s.second_moment, gradient, elements, k, scale);
  }
}
void update_block(const AdamStateView& s, const BFloat16Bits* gradient, std::int64_t elements,
                  const AdamStep& k, float scale) {
  assert(s.is_split());
  update_split_bf16(s.parameters, s.rests, s.first_moment, s.second_moment, gradient, elements, k,
                    scale);
}

template <typename Gradient>
void update_in_place(const AdamStateView& state, std::span<const Gradient> gradient,
                     const AdamCoefficients& c, int threads) {
  const AdamStep step = adam_step(c);
  parallel_blocks(std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
    update_block(state.starting_at(begin), gradient.data() + begin, end - begin, step,
                 c.gradient_scale);
  });
}

/// State of as many elements as halves fill a cache line, on its way from registers to memory.
struct Lines {
  static constexpr std::int64_t kElements = kStreamedLine / sizeof(std::int16_t);
  static constexpr std::int64_t kFloats = kStreamedLine / sizeof(float);
  alignas(kStreamedLine) BFloat16Bits old_parameters[kElements], parameters[kElements];
  alignas(kStreamedLine) std::int16_t rests[kElements];
  alignas(kStreamedLine) float first[kElements], second[kElements];
};

template <typename Gradient>
inline __attribute__((always_inline)) void update_lines(
    const AdamStateView& from, const AdamStateView& to, const Gradient* gradient,
    BFloat16Bits* old_parameters, std::int64_t elements, const AdamStep& k, float gradient_scale) {
  Lines lines;
  for (std::int64_t at = 0; at < elements; at += Lines::kElements) {
    for (std::int64_t i = 0; i < Lines::kElements; ++i) {
      lines.old_parameters[i] = from.parameters[at + i];
      lines.first[i] = from.first_moment[at + i];
      lines.second[i] = from.second_moment[at + i];
      const SplitMaster updated = split_master(
          adam_update(join_master(lines.old_parameters[i], from.rests[at + i]), lines.first[i],
                      lines.second[i], to_float(gradient[at + i]) * gradient_scale, k));
      lines.parameters[i] = updated.parameter;
      lines.rests[i] = updated.rest;
    }
    std::memcpy(to.parameters + at, lines.parameters, sizeof(lines.parameters));
    stream_line(to.rests + at, lines.rests);
    for (std::int64_t i = 0; i < Lines::kElements; i += Lines::kFloats) {
      stream_line(to.first_moment + at + i, lines.first + i);
      stream_line(to.second_moment + at + i, lines.second + i);
    }
    if (old_parameters != nullptr) stream_line(old_parameters + at, lines.old_parameters);
  }
}

ATHANOR_VECTOR_CLONES void update_lines_fp32(const AdamStateView& from, const AdamStateView& to,
                                             const float* gradient, BFloat16Bits* old_parameters,
                                             std::int64_t elements, AdamStep k,
                                             float gradient_scale) {
  update_lines(from, to, gradient, old_parameters, elements, k, gradient_scale);
}

ATHANOR_VECTOR_CLONES void update_lines_bf16(const AdamStateView& from, const AdamStateView& to,
                                             const BFloat16Bits* gradient,
                                             BFloat16Bits* old_parameters, std::int64_t elements,
                                             AdamStep k, float gradient_scale) {
  update_lines(from, to, gradient, old_parameters, elements, k, gradient_scale);
}

void update_whole_lines(const AdamStateView& from, const AdamStateView& to, const float* gradient,
                        BFloat16Bits* old_parameters, std::int64_t elements, const AdamStep& k,
                        float scale) {
  update_lines_fp32(from, to, gradient, old_parameters, elements, k, scale);
}
void update_whole_lines(const AdamStateView& from, const AdamStateView& to,
                        const BFloat16Bits* gradient, BFloat16Bits* old_parameters,
                        std::int64_t elements, const AdamStep& k, float scale) {
  update_lines_bf16(from, to, gradient, old_parameters, elements, k, scale);
}

/// Copies the first `elements` of a split state, and the old parameters.
void copy_state(const AdamStateView& from, const AdamStateView& to, BFloat16Bits* old_parameters,
                std::int64_t elements) {
  const Bytes halves = elements * static_cast<Bytes>(sizeof(std::int16_t));
  const Bytes floats = elements * static_cast<Bytes>(sizeof(float));
  if (old_parameters != nullptr) host_copy(old_parameters, from.parameters, halves);
  if (to.parameters != from.parameters) host_copy(to.parameters, from.parameters, halves);
  host_copy(to.rests, from.rests, halves);
  host_copy(to.first_moment, from.first_moment, floats);
  host_copy(to.second_moment, from.second_moment, floats);
}

BFloat16Bits* from_element(BFloat16Bits* parameters, std::int64_t element) {
  return parameters == nullptr ? nullptr : parameters + element;
}

template <typename Gradient>
void update_out_of_place(const AdamStateView& from, const AdamStateView& to,
                         std::span<const Gradient> gradient, const AdamCoefficients& c, int threads,
                         BFloat16Bits* old_parameters) {
  assert(from.is_split() && to.is_split());
  const AdamStep step = adam_step(c);
  parallel_blocks(std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rest = (end - begin) % Lines::kElements;
    update_whole_lines(from.starting_at(begin), to.starting_at(begin), gradient.data() + begin,
                       from_element(old_parameters, begin), end - begin - rest, step,
                       c.gradient_scale);
    finish_streams();
    const std::int64_t tail = end - rest;
    copy_state(from.starting_at(tail), to.starting_at(tail), from_element(old_parameters, tail),
               rest);
    update_block(to.starting_at(tail), gradient.data() + tail, rest, step, c.gradient_scale);
  });
}

}  // namespace

AdamStateView AdamStateView::starting_at(std::int64_t element) const noexcept {
  AdamStateView rest{.first_moment = first_moment + element,
                     .second_moment = second_moment + element};
  if (is_split()) {
    rest.parameters = parameters + element;
    rest.rests = rests + element;
  } else {
    rest.master = master + element;
  }
  return rest;
}

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
           int threads) {
  update_in_place(state, gradient, c, threads);
}

void adamw(const AdamStateView& state, std::span<const BFloat16Bits> gradient,
           const AdamCoefficients& c, int threads) {
  update_in_place(state, gradient, c, threads);
}

void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const float> gradient, const AdamCoefficients& c, int threads,
                        BFloat16Bits* old_parameters) {
  update_out_of_place(from, to, gradient, c, threads, old_parameters);
}

void adamw_out_of_place(const AdamStateView& from, const AdamStateView& to,
                        std::span<const BFloat16Bits> gradient, const AdamCoefficients& c,
                        int threads, BFloat16Bits* old_parameters) {
  update_out_of_place(from, to, gradient, c, threads, old_parameters);
}

}  // namespace athanor
