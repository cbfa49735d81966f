// SPDX-License-Identifier: Apache-2.0
// How far long work is, and how long the rest of it will take. Libraries report it and print
// nothing.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace athanor {

/// Called now and then by long work: `done` of `total` parts of a stage are done. A total of 0 is
/// not known.
using OnProgress =
    std::function<void(const std::string& stage, std::int64_t done, std::int64_t total)>;

/// Estimates the time that is left from what was done so far, as if all parts took as long.
class TimeLeft {
 public:
  /// Notes the share of the work that is done, 0 to 1. The first note is where counting starts: a
  /// run that goes on in its middle has done its first half in no time.
  void note(Seconds time, double share_done);

  /// Returns nothing in the first two seconds, or where nothing was done since.
  [[nodiscard]] std::optional<Seconds> left() const;

 private:
  std::optional<Seconds> start_;
  Seconds last_ = 0;
  double share_at_start_ = 0, share_ = 0;
};

/// Writes a time as people say it: "42 s left", "12 min left", "2 h 5 min left", "3 d 4 h left".
[[nodiscard]] std::string time_left_text(Seconds left);

/// Writes "stage 24 %, 42 s left", as much of it as is known. Only what is done has 100 %.
[[nodiscard]] std::string progress_text(const std::string& stage, std::int64_t done,
                                        std::int64_t total, std::optional<Seconds> left);

}  // namespace athanor
