// SPDX-License-Identifier: Apache-2.0
// One element's AdamW update, compiled for host and device. Both do the same operations in the
// same order and round each on its own, so both give the same bits.
#pragma once

#include "executor/cpu/device_function.hpp"

#include <cmath>
#include <cstdint>

namespace athanor {

/// A step's constants, computed in double and rounded once.
struct AdamStep {
  float decay, beta1, one_minus_beta1, beta2, one_minus_beta2;
  float step_size, root_bias_correction2, epsilon;
  std::uint32_t noise_seed = 0;  ///< seed of this step, for moments in bf16
};

/// Updates both moments and returns the new parameter. The order of operations is that of
/// torch.optim.AdamW, so that the two agree to rounding. `gradient` is scaled already.
ATHANOR_HOST_DEVICE float adam_update(float master, float& first, float& second, float gradient,
                                      const AdamStep& k) {
  const float m = k.beta1 * first + k.one_minus_beta1 * gradient;
  const float v = k.beta2 * second + k.one_minus_beta2 * (gradient * gradient);
  const float denominator = std::sqrt(v) / k.root_bias_correction2 + k.epsilon;
  first = m;
  second = v;
  return master * k.decay - k.step_size * (m / denominator);
}

ATHANOR_HOST_DEVICE std::uint32_t bits_of(float value) {
  std::uint32_t bits = 0;
  __builtin_memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// Returns 32 bits that look random (the finalizer of MurmurHash3). They follow from what an update
/// reads, not from where it lies, so that every plan, cut and number of threads rounds alike.
ATHANOR_HOST_DEVICE std::uint32_t rounding_noise(float master, float gradient, std::uint32_t seed) {
  std::uint32_t h = bits_of(gradient) ^ (bits_of(master) * 0x9E3779B1U) ^ seed;
  h = (h ^ (h >> 16U)) * 0x85EBCA6BU;
  h = (h ^ (h >> 13U)) * 0xC2B2AE35U;
  return h ^ (h >> 16U);
}

/// Rounds to one of the two nearest bf16, up with the probability of the part that bf16 lacks:
/// `noise` is a number below 2^16. The mean is the value, so that changes smaller than a step of
/// bf16 are not lost. Infinities and NaN stay what they are.
ATHANOR_HOST_DEVICE std::uint16_t round_stochastically(float value, std::uint32_t noise) {
  constexpr std::uint32_t kMagnitude = 0x7FFFFFFFU, kInfinity = 0x7F800000U, kQuietNan = 0x7FC0U;
  const std::uint32_t bits = bits_of(value);
  const bool is_nan = (bits & kMagnitude) > kInfinity;
  return static_cast<std::uint16_t>(is_nan ? kQuietNan : (bits + noise) >> 16U);
}

/// Does the update with moments in bf16, which are rounded stochastically once they have served it.
ATHANOR_HOST_DEVICE float adam_update(float master, std::uint16_t& first, std::uint16_t& second,
                                      float gradient, const AdamStep& k) {
  const std::uint32_t first_bits = static_cast<std::uint32_t>(first) << 16U;
  const std::uint32_t second_bits = static_cast<std::uint32_t>(second) << 16U;
  float m = 0, v = 0;
  __builtin_memcpy(&m, &first_bits, sizeof(m));
  __builtin_memcpy(&v, &second_bits, sizeof(v));
  const float updated = adam_update(master, m, v, gradient, k);
  const std::uint32_t noise = rounding_noise(master, gradient, k.noise_seed);
  first = round_stochastically(m, noise & 0xFFFFU);
  second = round_stochastically(v, noise >> 16U);
  return updated;
}

}  // namespace athanor
