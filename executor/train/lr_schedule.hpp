// SPDX-License-Identifier: Apache-2.0
// The learning rate of every step: linear warm-up, then a decay to the minimum.
#pragma once

#include <cstdint>
#include <string>

namespace athanor {

enum class Decay { Constant, Linear, Cosine };

struct LearningRateSchedule {
  double peak = 3e-4;
  double minimum = 0;
  std::int64_t warmup_steps = 0;
  std::int64_t total_steps = 0;  ///< the decay ends here
  Decay decay = Decay::Cosine;

  /// Learning rate of `step`, which counts from 0. The first warm-up step has a rate above 0.
  [[nodiscard]] double at(std::int64_t step) const;
  /// Throws InputError, naming the command-line option.
  void validate() const;
};

/// Parses "constant", "linear" or "cosine". Throws InputError.
[[nodiscard]] Decay parse_decay(const std::string& text);

}  // namespace athanor
