// SPDX-License-Identifier: Apache-2.0
// Finds the checkpoint that a run starts from, and checks the places that it will write to, before
// anything starts.
#pragma once

#include "cli/train/arguments.hpp"
#include "executor/backend/collectives.hpp"
#include "executor/checkpoint/checkpoint_finder.hpp"
#include "executor/io/export_record.hpp"
#include "executor/io/export_source.hpp"
#include "executor/job/run_folder.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "sim/model/plan.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

struct RunStart {
  RunFolder folder;
  std::string run;  ///< identity of the run that goes on; empty: a new one
  std::optional<ChosenCheckpoint> checkpoint;  ///< or what `memory` says in the form of one
  std::optional<RunMemory> memory;             ///< memory of killed processes; null: not used
  bool asks_ranks = false;  ///< ranks of several machines have yet to say what memory they have
  std::vector<std::string> in_the_way;  ///< damaged checkpoints behind that one
  ExportSource export_source;
  /// Export of this run's last step that is there already, as a killed process has left it. Rank 0
  /// alone looks for it.
  std::optional<ExportRecord> exported;
  std::vector<std::string> remarks;  ///< to be printed by one rank
};

/// Finds the checkpoint and checks the run folder and the export. Throws InputError.
/// `layout`: hash by which a snapshot is known to be of the plan (layout_hash).
/// `looks_closely`: also reads later checkpoints whole; one rank is enough.
[[nodiscard]] RunStart plan_start(const TrainArguments& arguments, const Architecture& architecture,
                                  const Plan& plan, std::uint64_t layout, bool looks_closely);

/// Decides between the memory of ranks on several machines and the checkpoint, where that is left
/// open: every rank calls it once they are connected, with the same arguments as plan_start().
/// Throws InputError where there is nothing to go on from.
void complete_start(const TrainArguments& arguments, const Architecture& architecture,
                    const Plan& plan, std::uint64_t layout, Collectives& ranks, RunStart& start);

/// Returns the ranks on each machine as the launcher tells it; 0: it does not tell, or they do not
/// fill one machine after the other.
[[nodiscard]] int machine_ranks();

/// Whether all steps are done already.
[[nodiscard]] bool is_finished(const TrainArguments& arguments, const RunStart& start);

}  // namespace athanor::cli
