// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_checkpoints.hpp"

#include "cli/train/trainer_options.hpp"
#include "executor/job/progress_printer.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor::cli {

RunCheckpoints::RunCheckpoints(Site site, Device& device)
    : site_(std::move(site)),
      series_({.folder = site_.inputs.start.folder.checkpoints(),
               .architecture = &site_.inputs.architecture,
               .rank = site_.rank,
               .keep_last = site_.arguments.keep_last,
               .exchange = [&trainer = site_.trainer](std::uint64_t value) {
                 return trainer.exchange(value);
               }}) {
  if (site_.inputs.checkpoint_copy > 0) staged_.emplace(device, site_.trainer.ranges_to_save());
}

void RunCheckpoints::write() {
  finish("");
  const std::int64_t step = site_.trainer.steps_done();
  if (series_.newest_step() == step) return;
  site_.watch.set_activity(fmt::format("it writes the checkpoint of step {}", step));
  series_.write(site_.state(step), counted(site_.trainer.ranges_to_save(), site_.progress));
  site_.progress.clear();
  report();
  site_.watch.set_activity("it is between steps");
}

void RunCheckpoints::make() {
  const bool versions = site_.arguments.async_checkpoint == "version";
  const std::int64_t step = site_.trainer.steps_done();
  // After the last step there is nothing to go on with.
  if ((!versions && !staged_) || step >= site_.arguments.steps) return write();
  finish("a longer --checkpoint-every lets it go on");
  site_.watch.set_activity(fmt::format("it copies the state of step {} for a checkpoint", step));
  series_.start(site_.state(step), versions ? CheckpointSource::Version : CheckpointSource::Copy,
                [&] {
                  return versions ? site_.trainer.ranges_of_version()
                                  : staged_->copy(site_.trainer.ranges_to_save());
                });
  site_.watch.set_activity("it is between steps");
}

void RunCheckpoints::finish_if_due() {
  if (site_.trainer.steps_done() < series_.last_step_beside()) return;
  finish("--async-checkpoint copy lets it go on");
}

/// Waits for the one that is under way. `way_out`: how the next one need not be waited for.
void RunCheckpoints::finish(const std::string& way_out) {
  site_.watch.set_activity(
      fmt::format("it waits for the checkpoint of step {}", series_.newest_step()));
  const Seconds waited = series_.finish();
  site_.watch.set_activity("it is between steps");
  report();
  if (site_.rank != 0 || waited <= 0 || way_out.empty()) return;
  if (std::exchange(has_said_slow_, true)) return;
  site_.print("the disk is slower than training, which has waited for a checkpoint: " + way_out);
}

/// Takes the times of a checkpoint that is complete. Those of a run's last have no step to go with.
void RunCheckpoints::report() {
  const std::optional<CheckpointReport> times = series_.take_report();
  if (!times || site_.rank != 0) return;
  unwritten_ = times;
  if (site_.arguments.async_checkpoint == "off" || site_.arguments.quiet) return;
  site_.print(checkpoint_line(*times));
}

std::optional<CheckpointReport> RunCheckpoints::look() {
  series_.look();
  report();
  return std::exchange(unwritten_, std::nullopt);
}

}  // namespace athanor::cli
