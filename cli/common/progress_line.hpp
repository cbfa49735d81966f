// SPDX-License-Identifier: Apache-2.0
// The one line by which every program says how far it is.
#pragma once

#include "sim/base/progress.hpp"
#include "sim/base/quantities.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace athanor::cli {

/// Destination of progress, its clock, and how lines are written there.
struct ProgressTarget {
  bool is_shown = true;
  bool rewrites = false;  ///< on a terminal the line is rewritten in place
  std::function<Seconds()> clock;
  std::function<void(const std::string&)> write;
};

/// Returns stderr and the monotonic clock. `quiet` shows nothing.
[[nodiscard]] ProgressTarget progress_on_stderr(bool quiet = false);

/// Says what is done and how much time is left. A terminal has one line that is rewritten, at most
/// ten times a second, and cleared at the end. Elsewhere, such as in the log of a batch job, a line
/// is added every half minute, and none for work that ends before; where stages are said, another
/// for each stage that begins.
class ProgressLine {
 public:
  enum class Stages { NotSaid, Said };

  explicit ProgressLine(ProgressTarget target = progress_on_stderr(),
                        Stages stages = Stages::NotSaid);
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Shows a stage of which `done` of `total` parts are done. Stages that go on counting share an
  /// estimate; counting that begins again starts a new one.
  void update(const std::string& stage, std::int64_t done, std::int64_t total);
  /// Removes the line from a terminal, so that other text can be printed.
  void clear();
  /// Returns update() as what libraries call. This line must outlive it.
  [[nodiscard]] OnProgress callback();

 private:
  [[nodiscard]] bool is_due(Seconds time, bool begins) const;

  ProgressTarget target_;
  Stages stages_;
  std::string stage_;
  std::int64_t done_ = 0;
  TimeLeft left_;
  Seconds last_shown_;
  bool is_on_screen_ = false;
};

}  // namespace athanor::cli
