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

}  // namespace athanor
