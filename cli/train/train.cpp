// SPDX-License-Identifier: Apache-2.0
#include "cli/train/train.hpp"

#include "cli/common/memory_progress.hpp"
#include "cli/train/plan_change.hpp"
#include "cli/train/run_preparation.hpp"
#include "cli/train/session.hpp"
#include "cli/train/trainer_options.hpp"
#include "executor/rendezvous/interrupts.hpp"

#include <optional>
#include <string>
#include <utility>

namespace athanor::cli {
namespace {

/// Runs under one plan: to the end, until it is interrupted, or until the plan is changed.
int train_under(const TrainArguments& arguments, const TrainInputs& inputs, const std::string& run,
                Backend& backend, JobWatch& watch, PlanChanges& changes) {
  const int rank = backend.host_collectives().rank();
  watch.set_activity("it takes its memory");
  std::optional<MemoryProgress> reserving(std::in_place, planned_host_bytes(inputs.plan),
                                          progress_on_stderr(arguments.quiet || rank != 0));
  Session session(arguments, inputs, run, backend, watch, changes);
  reserving.reset();
  watch.set_activity("it loads the state of the model");
  session.load();
  watch.set_activity("it is between steps");
  if (!is_finished(arguments, inputs.start)) {
    session.train_or_say_where_state_is();
    if (session.has_new_plan()) {
      session.forget_snapshot();
      return kExitDone;
    }
    if (!session.is_stopping() && session.has_trained()) session.measure();
  }
  if (!session.is_stopping()) session.export_or_keep();
  const bool is_done = !session.is_stopping();
  if (!is_done) session.save_interrupted();
  session.forget_snapshot();
  return is_done ? kExitDone : kExitInterrupted;
}

}  // namespace

int train(const TrainArguments& arguments, const TrainInputs& inputs, const std::string& run_json,
          Backend& backend, JobWatch& watch) {
  std::optional<RunFolderLock> lock;
  Collectives& ranks = backend.host_collectives();
  if (ranks.rank() == 0) lock.emplace(inputs.start.folder);
  PlanChanges changes(arguments, inputs);
  for (;;) {
    std::string run;
    if (ranks.rank() == 0) {
      run = prepare_run(changes.arguments(), changes.inputs(), run_json, say);
    }
    run = of_first_rank(run, ranks);
    const int code =
        train_under(changes.arguments(), changes.inputs(), run, backend, watch, changes);
    if (!changes.take_next()) return code;
  }
}

}  // namespace athanor::cli
