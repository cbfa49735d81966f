// SPDX-License-Identifier: Apache-2.0
#include "sim/base/progress.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

namespace athanor {

void TimeLeft::note(Seconds time, double share_done) {
  if (!start_) {
    start_ = time;
    share_at_start_ = share_done;
  }
  last_ = time;
  share_ = std::clamp(share_done, 0.0, 1.0);
}

std::optional<Seconds> TimeLeft::left() const {
  constexpr Seconds kTooEarly = 2;
  if (!start_ || last_ - *start_ < kTooEarly || share_ <= share_at_start_) return std::nullopt;
  return (1 - share_) * (last_ - *start_) / (share_ - share_at_start_);
}

std::string time_left_text(Seconds left) {
  constexpr std::int64_t kMinute = 60, kHour = 60, kDay = 24;
  const auto seconds = static_cast<std::int64_t>(std::ceil(std::clamp(left, 0.0, 1e9)));
  if (seconds < 2 * kMinute) return fmt::format("{} s left", seconds);
  const std::int64_t minutes = (seconds + kMinute / 2) / kMinute;
  if (minutes < kHour) return fmt::format("{} min left", minutes);
  const std::int64_t hours = minutes / kHour;
  if (hours < kDay) return fmt::format("{} h {} min left", hours, minutes % kHour);
  return fmt::format("{} d {} h left", hours / kDay, hours % kDay);
}

std::string progress_text(const std::string& stage, std::int64_t done, std::int64_t total,
                          std::optional<Seconds> left) {
  std::string text = stage;
  constexpr double kPercent = 100;
  if (total > 0) {
    const double share = static_cast<double>(done) / static_cast<double>(total);
    text += fmt::format(" {:.0f} %", std::floor(kPercent * share));
  }
  if (left) text += ", " + time_left_text(*left);
  return text;
}

}  // namespace athanor
