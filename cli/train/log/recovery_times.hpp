// SPDX-License-Identifier: Apache-2.0
// How long it takes to go on after processes were killed.
#pragma once

#include "executor/job/step_report.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace athanor::cli {

/// Variable in which a job that is started again finds its past: seconds from the first sign of the
/// loss until all processes had ended, and the time of the start in seconds since 1970.
inline constexpr const char* kRestartVariable = "ATHANOR_RESTART";

/// All times are of one steady clock.
class RecoveryTimes {
 public:
  /// Notes when the state was loaded. It is a recovery where it came from memory, or where the
  /// launcher says so (kRestartVariable).
  void note_load(bool from_memory, Seconds start, Seconds end);
  /// Returns the times at the end of the first step after a recovery; nothing later, and nothing
  /// where there was none.
  [[nodiscard]] std::optional<RecoveryReport> end(Seconds now);

 private:
  std::optional<RecoveryReport> report_;
  Seconds loaded_at_ = 0;
};

/// Returns the line that says them to the user.
[[nodiscard]] std::string recovery_line(const RecoveryReport& report, std::int64_t step);

}  // namespace athanor::cli
