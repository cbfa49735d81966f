// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_pace.hpp"

#include "sim/base/durations.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace athanor {
namespace {

/// Steps before the first look at the clock where nothing was predicted.
constexpr std::int64_t kFirstSteps = 10;
/// Share of the interval for which a prediction is trusted before it is measured.
constexpr double kTrusted = 0.25;
/// Share of the interval after which a checkpoint counts as due: steps are not cut.
constexpr double kNearlyDue = 0.95;

}  // namespace

CheckpointInterval parse_checkpoint_interval(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  const std::string_view unit(parsed.ptr, static_cast<std::size_t>(end - parsed.ptr));
  const Seconds seconds = seconds_of_unit(unit);
  const bool is_number = parsed.ec == std::errc() && number >= 0;
  if (is_number && unit.empty() && number <= kMostSteps) return {.steps = number, .seconds = 0};
  if (is_number && seconds > 0 && static_cast<double>(number) * seconds <= kMostSeconds) {
    return {.steps = 0, .seconds = static_cast<double>(number) * seconds};
  }
  throw InputError("--checkpoint-every", fmt::format("'{}' is no interval", text),
                   "Give a number of steps (500), a time up to a year (600s, 10m, 1h), or 0 for no "
                   "checkpoints.");
}

CheckpointPace::CheckpointPace(CheckpointInterval interval, Seconds predicted_step,
                               std::int64_t steps_done, Seconds now)
    : interval_(interval),
      step_seconds_(predicted_step),
      stopped_at_(steps_done),
      stopped_time_(now),
      last_checkpoint_(now) {}

std::int64_t CheckpointPace::steps_ahead(std::int64_t steps_done, Seconds now) const {
  if (interval_.steps > 0) return interval_.steps - steps_done % interval_.steps;
  if (interval_.seconds <= 0) return kMostSteps;
  if (step_seconds_ <= 0) return kFirstSteps;
  const Seconds left = interval_.seconds - (now - last_checkpoint_);
  const double steps = (measured_ ? left : kTrusted * left) / step_seconds_;
  return static_cast<std::int64_t>(
      std::clamp(std::ceil(steps), 1.0, static_cast<double>(kMostSteps)));
}

std::int64_t CheckpointPace::next_stop(std::int64_t steps_done, std::int64_t last, Seconds now) {
  if (steps_done > stopped_at_) {
    step_seconds_ = (now - stopped_time_) / static_cast<double>(steps_done - stopped_at_);
    measured_ = true;
  }
  stopped_at_ = steps_done;
  stopped_time_ = now;
  return std::min(last, steps_done + steps_ahead(steps_done, now));
}

bool CheckpointPace::is_due(std::int64_t steps_done, Seconds now) const {
  if (interval_.steps > 0) return steps_done % interval_.steps == 0;
  return interval_.seconds > 0 && now - last_checkpoint_ >= kNearlyDue * interval_.seconds;
}

}  // namespace athanor
