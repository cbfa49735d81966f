// SPDX-License-Identifier: Apache-2.0
#include "sim/failures/replay_failures.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

namespace athanor {
namespace {

/// Times of an undisturbed run: "clock" is what it shows, from the start.
class Undisturbed {
 public:
  explicit Undisturbed(const TrainingRun& run)
      : run_(run), period_(run.snapshot_interval + run.snapshot_blocking) {}

  /// Clock at which snapshot `index`, and its checkpoint if it has one, are over; 0 is the start.
  [[nodiscard]] Seconds clock(std::int64_t index) const {
    return static_cast<double>(index) * period_ + on_disk(index) * run_.checkpoint_blocking;
  }

  /// Last snapshot that is over by then.
  [[nodiscard]] std::int64_t snapshot(Seconds clock) const {
    if (clock <= 0) return 0;
    const auto in_cycle = static_cast<double>(run_.snapshots_per_checkpoint);
    const Seconds cycle = in_cycle * period_ + run_.checkpoint_blocking;
    const double cycles = std::floor(clock / cycle);
    const double rest = std::floor((clock - cycles * cycle) / period_);
    return static_cast<std::int64_t>(cycles * in_cycle + std::clamp(rest, 0.0, in_cycle - 1));
  }

  /// Last snapshot that is on disk as well by then.
  [[nodiscard]] std::int64_t checkpoint(Seconds clock) const {
    const std::int64_t index = snapshot(clock);
    return index - index % run_.snapshots_per_checkpoint;
  }

  /// Division of the time up to `clock`.
  [[nodiscard]] TimeUse use(Seconds clock) const {
    const std::int64_t index = snapshot(clock);
    const Seconds rest = std::max(0.0, clock - this->clock(index));
    const auto count = static_cast<double>(index);
    return {
        .training = count * run_.snapshot_interval + std::min(rest, run_.snapshot_interval),
        .snapshots = count * run_.snapshot_blocking +
                     std::clamp(rest - run_.snapshot_interval, 0.0, run_.snapshot_blocking),
        .checkpoints = on_disk(index) * run_.checkpoint_blocking + std::max(0.0, rest - period_)};
  }

 private:
  /// Number of checkpoints among the first `index` snapshots.
  [[nodiscard]] double on_disk(std::int64_t index) const {
    const std::int64_t count = index / run_.snapshots_per_checkpoint;
    return static_cast<double>(count);
  }

  const TrainingRun& run_;
  Seconds period_;
};

class ReplayedRun {
 public:
  explicit ReplayedRun(const TrainingRun& run)
      : run_(run),
        undisturbed_(run),
        failed_(static_cast<std::size_t>(run.placement.num_machines), false) {}

  void fail(const Failure& failure) {
    const Seconds trained = pass(failure.at);
    note_snapshots(trained);
    for (const int machine : failure.machines) failed_[position(machine)] = true;
    in_memory_ = in_memory_ && run_.keeps_memory && run_.placement.survives(failed_);
    const std::int64_t newest = in_memory_ ? newest_ : on_disk_;
    use_.lost += undisturbed_.clock(base_) + trained - undisturbed_.clock(newest);
    base_ = newest_ = newest;
    failed_at_ = failure.at;
    retrieval_ = in_memory_ ? run_.memory_retrieval : run_.disk_retrieval;
    ++use_.num_failures;
    if (!in_memory_) ++use_.num_from_disk;
  }

  [[nodiscard]] TimeUse finish(Seconds horizon) {
    const TimeUse kept = undisturbed_.use(undisturbed_.clock(base_) + pass(horizon));
    use_.training = kept.training;
    use_.snapshots = kept.snapshots;
    use_.checkpoints = kept.checkpoints;
    return use_;
  }

 private:
  /// Accounts for the time since the last failure; returns the part in which the run trained.
  Seconds pass(Seconds now) {
    if (use_.num_failures == 0) return now;
    const Seconds passed = now - failed_at_;
    const Seconds restart = std::min(passed, run_.restart);
    const Seconds retrieval = std::min(passed - restart, retrieval_);
    use_.restarts += restart;
    use_.retrievals += retrieval;
    return passed - restart - retrieval;
  }

  /// Notes what was taken in the `trained` seconds since the last restart. A snapshot gives
  /// machines that were replaced their copies again.
  void note_snapshots(Seconds trained) {
    const Seconds clock = undisturbed_.clock(base_) + trained;
    on_disk_ = std::max(on_disk_, undisturbed_.checkpoint(clock - run_.checkpoint_latency));
    const std::int64_t snapshot = undisturbed_.snapshot(clock - run_.snapshot_latency);
    if (snapshot <= base_) return;
    newest_ = snapshot;
    in_memory_ = true;
    failed_.assign(failed_.size(), false);
  }

  /// Place of a machine in the order of the placement.
  [[nodiscard]] std::size_t position(int machine) const {
    const std::size_t column = run_.placement.num_machines / run_.jump;
    return machine % run_.jump * column + machine / run_.jump;
  }

  const TrainingRun& run_;
  Undisturbed undisturbed_;
  std::vector<bool> failed_;  ///< by position: no copies there since the newest snapshot
  std::int64_t base_ = 0;     ///< snapshot from which training went on
  std::int64_t newest_ = 0;   ///< newest snapshot in memory
  std::int64_t on_disk_ = 0;  ///< newest snapshot on disk; the start needs none
  bool in_memory_ = true;     ///< whether the newest snapshot is there
  Seconds failed_at_ = 0, retrieval_ = 0;
  TimeUse use_;
};

}  // namespace

void TrainingRun::validate(const std::string& where) const {
  placement.validate(where);
  if (jump < 1 || placement.num_machines % jump != 0) {
    throw InputError(
        where,
        fmt::format("a jump of {} does not divide {} machines", jump, placement.num_machines),
        "Use a divisor of their number, such as the machines of a rack.");
  }
}

TimeUse replay_failures(const TrainingRun& run, const std::vector<Failure>& failures,
                        Seconds horizon) {
  ReplayedRun replay(run);
  for (const Failure& failure : failures) {
    if (failure.at >= horizon) break;
    replay.fail(failure);
  }
  return replay.finish(horizon);
}

}  // namespace athanor
