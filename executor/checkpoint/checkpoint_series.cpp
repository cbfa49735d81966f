// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_series.hpp"

#include "executor/backend/steady_clock.hpp"

#include <limits>
#include <utility>

namespace athanor {

void CheckpointSeries::note_newest(std::int64_t step, std::string folder) {
  newest_step_ = step;
  newest_folder_ = std::move(folder);
}

void CheckpointSeries::write(const CheckpointState& state, const std::vector<StateRange>& ranges) {
  static_cast<void>(finish());
  if (newest_step_ == state.step) return;
  const Seconds start = steady_seconds();
  newest_folder_ = write_checkpoint(site_.folder, state, *site_.architecture, ranges, site_.rank,
                                    site_.keep_last, site_.exchange);
  newest_step_ = state.step;
  const Seconds took = steady_seconds() - start;
  report_ = {.step = state.step, .stopped = took, .waited = 0, .write = took};
}

void CheckpointSeries::start(const CheckpointState& state, CheckpointSource source,
                             const std::function<std::vector<StateRange>()>& take) {
  static_cast<void>(finish());
  if (newest_step_ == state.step) return;
  const Seconds start = steady_seconds();
  if (site_.rank == 0) begin_checkpoint(site_.folder, state.step);
  static_cast<void>(site_.exchange(0));  // the folder is there
  background_ = std::make_unique<BackgroundCheckpoint>(
      CheckpointPart{site_.folder, state, site_.architecture, take(), site_.rank, site_.keep_last});
  newest_step_ = state.step;
  source_ = source;
  is_under_way_ = true;
  times_ = {.step = state.step, .stopped = steady_seconds() - start, .waited = 0, .write = 0};
}

Seconds CheckpointSeries::finish() {
  if (!is_under_way_) return 0;
  const Seconds start = steady_seconds();
  const bool waits = background_ && !background_->is_done();
  take_result();
  static_cast<void>(site_.exchange(0));  // nobody goes on before the checkpoint counts
  is_under_way_ = false;
  newest_folder_ = checkpoint_path(site_.folder, newest_step_);
  const Seconds waited = waits ? steady_seconds() - start : 0;
  if (report_) report_->waited = waited;
  return waited;
}

std::int64_t CheckpointSeries::last_step_beside() const noexcept {
  const bool is_bound = is_under_way_ && source_ == CheckpointSource::Version;
  return is_bound ? newest_step_ + 1 : std::numeric_limits<std::int64_t>::max();
}

void CheckpointSeries::look() {
  if (background_ && background_->is_done()) take_result();
}

/// Takes what the thread returns, or throws what it threw.
void CheckpointSeries::take_result() {
  if (!background_) return;
  const std::unique_ptr<BackgroundCheckpoint> background = std::move(background_);
  times_.write = background->wait();
  if (site_.rank == 0) report_ = times_;
}

std::optional<CheckpointReport> CheckpointSeries::take_report() {
  return std::exchange(report_, std::nullopt);
}

}  // namespace athanor
