// SPDX-License-Identifier: Apache-2.0
#include "executor/train/lr_schedule.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace athanor {

double LearningRateSchedule::at(std::int64_t step) const {
  if (step < warmup_steps) {
    return peak * static_cast<double>(step + 1) / static_cast<double>(warmup_steps + 1);
  }
  if (decay == Decay::Constant) return peak;
  const auto decaying = static_cast<double>(std::max<std::int64_t>(1, total_steps - warmup_steps));
  const double done = std::clamp(static_cast<double>(step - warmup_steps) / decaying, 0.0, 1.0);
  const double left =
      decay == Decay::Linear ? 1.0 - done : 0.5 * (1.0 + std::cos(std::numbers::pi * done));
  return minimum + left * (peak - minimum);
}

void LearningRateSchedule::validate() const {
  if (!std::isfinite(peak) || peak < 0) {
    throw InputError("--lr", fmt::format("{} is no learning rate", peak), "Use a number >= 0.");
  }
  if (!std::isfinite(minimum) || minimum < 0 || minimum > peak) {
    throw InputError("--min-lr", fmt::format("{} is out of range", minimum),
                     fmt::format("Use a number from 0 to --lr ({}).", peak));
  }
  if (warmup_steps < 0) {
    throw InputError("--warmup-steps", fmt::format("{} is negative", warmup_steps),
                     "Use 0 for no warm-up.");
  }
}

Decay parse_decay(const std::string& text) {
  if (text == "constant") return Decay::Constant;
  if (text == "linear") return Decay::Linear;
  if (text == "cosine") return Decay::Cosine;
  throw InputError("--schedule", fmt::format("unknown schedule '{}'", text),
                   "Use cosine, linear or constant.");
}

}  // namespace athanor
