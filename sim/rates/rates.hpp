// SPDX-License-Identifier: Apache-2.0
// Rates: how long the operations of a step take, kind by kind, as a run has measured it.
#pragma once

#include "sim/model/program.hpp"

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace athanor {

/// Operations that one rate describes: those of a kind on a lane. Phases are told apart by the
/// class of their unit, and operations of a kind that do other work by `variant`.
struct RateKey {
  OpKind kind = OpKind::Forward;
  Lane lane = Lane::Compute;
  /// Class of a phase's unit; else empty.
  std::string unit_class = {};  // NOLINT(readability-redundant-member-init)
  bool variant =
      false;  ///< Forward that keeps, Adam that keeps the old state, a sum that is added to
  auto operator<=>(const RateKey&) const = default;
};

struct MeasuredRate {
  std::int64_t count = 0;  ///< operations of a step
  Seconds seconds = 0;     ///< time of all of them in a step, on the slowest rank
  /// Relative standard error of `seconds`; none where one step was measured.
  std::optional<double> spread = std::nullopt;
};

/// Launches that the device waited for: where the host is ahead, it waits for room in a queue, and
/// its time to launch tells nothing. Without those of operations that take a batch, and none where
/// the device waited for less than a quarter of the launches.
struct MeasuredLaunches {
  std::int64_t count = 0;  ///< operations of a step
  Seconds seconds = 0;     ///< time of the host in a step, on the slowest rank
  Seconds calibrated = 0;  ///< time that the platform and the profile give the same operations
  std::optional<double> spread = std::nullopt;
};

/// Rates of a run's steps.
struct MeasuredRates {
  std::int64_t first_step = 0, last_step = 0;  ///< steps that were measured, counted from 1
  std::map<RateKey, MeasuredRate> rates = {};  // NOLINT(readability-redundant-member-init)
  std::optional<MeasuredLaunches> launches = std::nullopt;
  [[nodiscard]] std::int64_t num_steps() const noexcept { return last_step - first_step + 1; }
};

/// How many times as long the operations of each rate take alone as a platform and a profile say,
/// and launches by the host.
struct RateFactors {
  std::map<RateKey, double> operations = {};  // NOLINT(readability-redundant-member-init)
  double launch = 1;
};

}  // namespace athanor
