// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/adam.hpp"

#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/host_copy.hpp"
#include "executor/cpu/nontemporal_store.hpp"
#include "executor/cpu/parallel_blocks.hpp"
#include "executor/cpu/split_master.hpp"
#include "executor/cpu/target_clones.hpp"
#include "sim/base/split_mix.hpp"

#include <cassert>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

namespace athanor {
namespace {

/// Arrays of a whole master and its update.
template <typename Moment>
struct WholeArrays {
  float* master;
  Moment *first, *second;
  const float* gradient;
};

template <typename Moment>
inline __attribute__((always_inline)) void update_whole_of(const WholeArrays<Moment>& a,
                                                           std::int64_t elements, const AdamStep& k,
                                                           float scale) {
  float* __restrict master = a.master;
  Moment* __restrict first = a.first;
  Moment* __restrict second = a.second;
  const float* __restrict gradient = a.gradient;
  for (std::int64_t i = 0; i < elements; ++i) {
    master[i] = adam_update(master[i], first[i], second[i], gradient[i] * scale, k);
  }
}

ATHANOR_VECTOR_CLONES void update_whole(WholeArrays<float> arrays, std::int64_t elements,
                                        AdamStep k, float scale) {
  update_whole_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_whole(WholeArrays<BFloat16Bits> arrays, std::int64_t elements,
                                        AdamStep k, float scale) {
  update_whole_of(arrays, elements, k, scale);
}

/// Arrays of a split master and its update.
template <typename Gradient, typename Moment>
struct SplitArrays {
  BFloat16Bits* parameters;
  std::int16_t* rests;
  Moment *first, *second;
  const Gradient* gradient;
};

template <typename Gradient, typename Moment>
inline __attribute__((always_inline)) void update_split_of(const SplitArrays<Gradient, Moment>& a,
                                                           std::int64_t elements, const AdamStep& k,
                                                           float scale) {
  BFloat16Bits* __restrict parameters = a.parameters;
  std::int16_t* __restrict rests = a.rests;
  Moment* __restrict first = a.first;
  Moment* __restrict second = a.second;
  const Gradient* __restrict gradient = a.gradient;
  for (std::int64_t i = 0; i < elements; ++i) {
    const SplitMaster updated =
        split_master(adam_update(join_master(parameters[i], rests[i]), first[i], second[i],
                                 to_float(gradient[i]) * scale, k));
    parameters[i] = updated.parameter;
    rests[i] = updated.rest;
  }
}

ATHANOR_VECTOR_CLONES void update_split(SplitArrays<float, float> arrays, std::int64_t elements,
                                        AdamStep k, float scale) {
  update_split_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_split(SplitArrays<BFloat16Bits, float> arrays,
                                        std::int64_t elements, AdamStep k, float scale) {
  update_split_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_split(SplitArrays<float, BFloat16Bits> arrays,
                                        std::int64_t elements, AdamStep k, float scale) {
  update_split_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_split(SplitArrays<BFloat16Bits, BFloat16Bits> arrays,
                                        std::int64_t elements, AdamStep k, float scale) {
  update_split_of(arrays, elements, k, scale);
}

template <typename Moment>
std::pair<Moment*, Moment*> moments_of(const AdamStateView& s) {
  if constexpr (std::is_same_v<Moment, float>) {
    return {s.first_moment, s.second_moment};
  } else {
    return {s.first_moment_bf16, s.second_moment_bf16};
  }
}

/// Calls body with both moments of `s`, whatever their type.
template <typename Body>
void with_moments(const AdamStateView& s, Body body) {
  if (s.has_bf16_moments()) return body(s.first_moment_bf16, s.second_moment_bf16);
  body(s.first_moment, s.second_moment);
}

template <typename Gradient>
void update_block(const AdamStateView& s, const Gradient* gradient, std::int64_t elements,
                  const AdamStep& k, float scale) {
  with_moments(s, [&]<typename Moment>(Moment* first, Moment* second) {
    if constexpr (std::is_same_v<Gradient, float>) {
      if (!s.is_split()) {
        return update_whole(WholeArrays<Moment>{s.master, first, second, gradient}, elements, k,
                            scale);
      }
    }
    assert(s.is_split());
    update_split(SplitArrays<Gradient, Moment>{s.parameters, s.rests, first, second, gradient},
                 elements, k, scale);
  });
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
template <typename Moment>
struct Lines {
  static constexpr std::int64_t kElements = kStreamedLine / sizeof(std::int16_t);
  static constexpr std::int64_t kMoments = kStreamedLine / sizeof(Moment);
  alignas(kStreamedLine) BFloat16Bits old_parameters[kElements], parameters[kElements];
  alignas(kStreamedLine) std::int16_t rests[kElements];
  alignas(kStreamedLine) Moment first[kElements], second[kElements];
};
constexpr std::int64_t kLineElements = Lines<float>::kElements;

/// Arrays of an update of a split master that is written elsewhere.
template <typename Gradient, typename Moment>
struct MovedArrays {
  SplitArrays<Gradient, Moment> from, to;
  BFloat16Bits* old_parameters;
};

template <typename Gradient, typename Moment>
inline __attribute__((always_inline)) void update_lines_of(const MovedArrays<Gradient, Moment>& a,
                                                           std::int64_t elements, const AdamStep& k,
                                                           float scale) {
  Lines<Moment> lines;
  for (std::int64_t at = 0; at < elements; at += kLineElements) {
    for (std::int64_t i = 0; i < kLineElements; ++i) {
      lines.old_parameters[i] = a.from.parameters[at + i];
      lines.first[i] = a.from.first[at + i];
      lines.second[i] = a.from.second[at + i];
      const SplitMaster updated = split_master(
          adam_update(join_master(lines.old_parameters[i], a.from.rests[at + i]), lines.first[i],
                      lines.second[i], to_float(a.from.gradient[at + i]) * scale, k));
      lines.parameters[i] = updated.parameter;
      lines.rests[i] = updated.rest;
    }
    std::memcpy(a.to.parameters + at, lines.parameters, sizeof(lines.parameters));
    stream_line(a.to.rests + at, lines.rests);
    for (std::int64_t i = 0; i < kLineElements; i += Lines<Moment>::kMoments) {
      stream_line(a.to.first + at + i, lines.first + i);
      stream_line(a.to.second + at + i, lines.second + i);
    }
    if (a.old_parameters != nullptr) stream_line(a.old_parameters + at, lines.old_parameters);
  }
}

ATHANOR_VECTOR_CLONES void update_lines(MovedArrays<float, float> arrays, std::int64_t elements,
                                        AdamStep k, float scale) {
  update_lines_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_lines(MovedArrays<BFloat16Bits, float> arrays,
                                        std::int64_t elements, AdamStep k, float scale) {
  update_lines_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_lines(MovedArrays<float, BFloat16Bits> arrays,
                                        std::int64_t elements, AdamStep k, float scale) {
  update_lines_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_lines(MovedArrays<BFloat16Bits, BFloat16Bits> arrays,
                                        std::int64_t elements, AdamStep k, float scale) {
  update_lines_of(arrays, elements, k, scale);
}

/// State with a whole master, likewise.
template <typename Moment>
struct WholeLines {
  alignas(kStreamedLine) float master[kLineElements];
  alignas(kStreamedLine) Moment first[kLineElements], second[kLineElements];
};

/// Arrays of an update of a whole master that is written elsewhere.
template <typename Moment>
struct MovedWholes {
  WholeArrays<Moment> from, to;
};

template <typename Moment>
inline __attribute__((always_inline)) void update_wholes_of(const MovedWholes<Moment>& a,
                                                            std::int64_t elements,
                                                            const AdamStep& k, float scale) {
  constexpr std::int64_t kFloats = kStreamedLine / sizeof(float);
  WholeLines<Moment> lines;
  for (std::int64_t at = 0; at < elements; at += kLineElements) {
    for (std::int64_t i = 0; i < kLineElements; ++i) {
      lines.first[i] = a.from.first[at + i];
      lines.second[i] = a.from.second[at + i];
      lines.master[i] = adam_update(a.from.master[at + i], lines.first[i], lines.second[i],
                                    a.from.gradient[at + i] * scale, k);
    }
    for (std::int64_t i = 0; i < kLineElements; i += kFloats) {
      stream_line(a.to.master + at + i, lines.master + i);
    }
    for (std::int64_t i = 0; i < kLineElements; i += Lines<Moment>::kMoments) {
      stream_line(a.to.first + at + i, lines.first + i);
      stream_line(a.to.second + at + i, lines.second + i);
    }
  }
}

ATHANOR_VECTOR_CLONES void update_wholes(MovedWholes<float> arrays, std::int64_t elements,
                                         AdamStep k, float scale) {
  update_wholes_of(arrays, elements, k, scale);
}
ATHANOR_VECTOR_CLONES void update_wholes(MovedWholes<BFloat16Bits> arrays, std::int64_t elements,
                                         AdamStep k, float scale) {
  update_wholes_of(arrays, elements, k, scale);
}

template <typename Gradient>
void update_whole_lines(const AdamStateView& from, const AdamStateView& to,
                        const Gradient* gradient, BFloat16Bits* old_parameters,
                        std::int64_t elements, const AdamStep& k, float scale) {
  with_moments(from, [&]<typename Moment>(Moment* first, Moment* second) {
    const auto [to_first, to_second] = moments_of<Moment>(to);
    if constexpr (std::is_same_v<Gradient, float>) {
      if (!from.is_split()) {
        return update_wholes(MovedWholes<Moment>{{from.master, first, second, gradient},
                                                 {to.master, to_first, to_second, gradient}},
                             elements, k, scale);
      }
    }
    update_lines(
        MovedArrays<Gradient, Moment>{{from.parameters, from.rests, first, second, gradient},
                                      {to.parameters, to.rests, to_first, to_second, gradient},
                                      old_parameters},
        elements, k, scale);
  });
}

/// Copies the first `elements` of a state, and the old parameters of a split one.
void copy_state(const AdamStateView& from, const AdamStateView& to, BFloat16Bits* old_parameters,
                std::int64_t elements) {
  const Bytes halves = elements * static_cast<Bytes>(sizeof(BFloat16Bits));
  if (old_parameters != nullptr) host_copy(old_parameters, from.parameters, halves);
  if (from.is_split() && to.parameters != from.parameters) {
    host_copy(to.parameters, from.parameters, halves);
  }
  if (!from.is_split()) {
    host_copy(to.master, from.master, elements * static_cast<Bytes>(sizeof(float)));
  }
  for_each_array(to, from, elements,
                 [&]<typename Value>(Value* target, const Value* source, std::int64_t count) {
                   host_copy(target, source, count * static_cast<Bytes>(sizeof(Value)));
                 });
}

BFloat16Bits* from_element(BFloat16Bits* parameters, std::int64_t element) {
  return parameters == nullptr ? nullptr : parameters + element;
}

template <typename Gradient>
void update_out_of_place(const AdamStateView& from, const AdamStateView& to,
                         std::span<const Gradient> gradient, const AdamCoefficients& c, int threads,
                         BFloat16Bits* old_parameters) {
  assert(from.is_split() == to.is_split());
  assert(from.has_bf16_moments() == to.has_bf16_moments());
  const AdamStep step = adam_step(c);
  parallel_blocks(std::ssize(gradient), threads, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t rest = (end - begin) % kLineElements;
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
  AdamStateView rest;
  if (has_int8_moments()) {
    assert(element % kMomentBlock == 0);
    rest.first_moment_int8 = first_moment_int8 + element;
    rest.second_moment_int8 = second_moment_int8 + element;
    rest.scales = scales + element / kMomentBlock;
  } else if (has_bf16_moments()) {
    rest.first_moment_bf16 = first_moment_bf16 + element;
    rest.second_moment_bf16 = second_moment_bf16 + element;
  } else {
    rest.first_moment = first_moment + element;
    rest.second_moment = second_moment + element;
  }
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
      .noise_seed =
          static_cast<std::uint32_t>(split_mix_finalizer(static_cast<std::uint64_t>(c.step))),
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

void adamw(const AdamStateView& state, std::span<const float> gradient, const AdamStep& step,
           float gradient_scale) {
  update_block(state, gradient.data(), std::ssize(gradient), step, gradient_scale);
}

void adamw(const AdamStateView& state, std::span<const BFloat16Bits> gradient, const AdamStep& step,
           float gradient_scale) {
  update_block(state, gradient.data(), std::ssize(gradient), step, gradient_scale);
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
