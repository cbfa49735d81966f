// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_start.hpp"

#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_writer.hpp"
#include "executor/io/output_folder.hpp"
#include "executor/io/staging_folder.hpp"
#include "executor/io/tensor_type.hpp"
#include "executor/job/run_record.hpp"
#include "executor/memory/shared_memory.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "executor/snapshot/memory_of_ranks.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;

/// The path without links and dots; trailing slashes go.
fs::path resolved(const fs::path& path) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(fs::absolute(path, error), error);
  return whole.has_filename() ? whole : whole.parent_path();
}

/// Whether `inner` is `outer` or lies in it.
bool lies_in(const fs::path& inner, const fs::path& outer) {
  const fs::path relative = resolved(inner).lexically_relative(resolved(outer));
  return !relative.empty() && *relative.begin() != "..";
}

ChosenCheckpoint choose(const TrainArguments& a, const RunFolder& source,
                        const std::string& source_run) {
  if (a.resume_checkpoint.empty()) {
    return choose_newest_checkpoint(source.checkpoints(), source_run);
  }
  return choose_checkpoint(a.resume_checkpoint);
}

/// Says which later steps of the same run a selected checkpoint leaves out.
void remark_on_later(RunStart& start) {
  const CheckpointState& state = start.checkpoint->state;
  std::string later;
  const std::string checkpoints = fs::path(start.checkpoint->folder).parent_path().string();
  for (const FoundCheckpoint& found : list_checkpoints(checkpoints)) {
    if (found.step > state.step && is_whole_of(found, state.run)) {
      later = fmt::format(", not the newest, which is step {}", found.step);
    }
  }
  start.remarks.push_back(
      fmt::format("resuming from {} (step {}{})", start.checkpoint->folder, state.step, later));
}

/// Returns the newest checkpoint on disk, or null where memory serves without it. `trouble`: why
/// memory does not.
std::optional<ChosenCheckpoint> choose_unless(bool has_memory, const TrainArguments& a,
                                              const RunFolder& source,
                                              const std::string& source_run,
                                              const std::string& trouble = "") {
  try {
    return choose(a, source, source_run);
  } catch (const InputError& error) {
    if (has_memory) return std::nullopt;
    if (trouble.empty()) throw;
    throw InputError(error.where(),
                     fmt::format("the snapshot in memory is not used ({}), and there is no "
                                 "checkpoint that can be",
                                 trouble),
                     error.hint());
  }
}

/// Lets the run start from memory. Its description takes the place of a checkpoint's.
void take_memory(RunMemory memory, const Architecture& architecture, const Plan& plan,
                 std::uint64_t layout, RunStart& start) {
  const std::string where = "the memory of run " + start.run;
  CheckpointState state = parse_checkpoint_state(memory.text, where);
  const bool is_same = std::ranges::all_of(
      memory.layouts, [layout](std::uint64_t other) { return other == layout; });
  if (!is_same || memory.world_size != plan.world_size ||
      state.parameters != hash_parameters(architecture)) {
    throw InputError(where,
                     fmt::format("holds step {}, under another plan than this one", memory.steps),
                     fmt::format("Resume with the plan and the model of before ({}/plan.json), or "
                                 "give that step up: athanor clean {}",
                                 start.folder.path, start.folder.path));
  }
  state.position.samples += (memory.steps - state.step) * plan.global_batch();
  state.step = memory.steps;
  const std::string on_disk =
      start.checkpoint
          ? fmt::format("the newest checkpoint on disk is of step {}", start.checkpoint->state.step)
          : "there is no checkpoint on disk";
  const std::string lost =
      plan.snapshot_every > 1
          ? fmt::format("; one in {} steps is kept, and those after it come again",
                        plan.snapshot_every)
          : "";
  start.remarks.push_back(
      fmt::format("resuming from memory (step {}; {}{})", memory.steps, on_disk, lost));
  start.checkpoint = {where, std::move(state), ""};
  start.memory = std::move(memory);
}

/// Whether some ranks are on other machines, whose memory this process does not see.
bool spans_machines() {
  const RankInfo rank = rank_from_environment();
  return rank.world_size > 1 && rank.local_size > 0 && !rank.is_on_one_machine();
}

/// Uses the memory where it is newer than what is on disk.
void take_newest(FoundMemory found, const TrainArguments& a, const Architecture& architecture,
                 const Plan& plan, std::uint64_t layout, const std::string& source_run,
                 RunStart& start) {
  if (found.is_held) {
    throw InputError(start.folder.path, "is the folder of a run that goes on: " + found.problem,
                     "Wait for its end, or end it.");
  }
  if (!found.problem.empty()) {
    start.remarks.push_back((found.memory ? "a part of the snapshot in memory is not used: "
                                          : "the snapshot in memory is not used: ") +
                            found.problem);
  }
  start.checkpoint =
      choose_unless(found.memory.has_value(), a, {a.resume_run}, source_run, found.problem);
  const std::int64_t on_disk = start.checkpoint ? start.checkpoint->state.step : -1;
  if (found.memory && found.memory->steps > on_disk) {
    start.run = source_run;
    return take_memory(std::move(*found.memory), architecture, plan, layout, start);
  }
  remark_on_later(start);
}

/// Looks for the state of killed processes. Where ranks are on several machines, that is left to
/// complete_start().
void resume_newest(const TrainArguments& a, const Architecture& architecture, const Plan& plan,
                   std::uint64_t layout, const RunFolder& source, const std::string& source_run,
                   RunStart& start) {
  FoundMemory found;
  const bool looks = plan.snapshot != Snapshot::None && a.resume_checkpoint.empty();
  if (looks && !source_run.empty() && spans_machines()) {
    start.asks_ranks = true;
    start.checkpoint = choose_unless(true, a, source, source_run);
    return;
  }
  if (looks) found = find_run_memory(kSharedMemoryFolder, source_run);
  take_newest(std::move(found), a, architecture, plan, layout, source_run, start);
}

void resume(const TrainArguments& a, const Architecture& architecture, const Plan& plan,
            std::uint64_t layout, bool looks_closely, RunStart& start) {
  const RunFolder source{a.resume_run};
  const bool here = !a.resume_run.empty() && resolved(a.resume_run) == resolved(a.out);
  const std::string source_run =
      a.resume_run.empty() ? std::string() : run_identity_in(read_run_record(source));
  if (here) {
    resume_newest(a, architecture, plan, layout, source, source_run, start);
  } else {
    start.checkpoint = choose(a, source, source_run);
    remark_on_later(start);
  }
  const CheckpointState state = start.checkpoint ? start.checkpoint->state : CheckpointState{};
  if (here && !source_run.empty() && !state.run.empty() && state.run != source_run) {
    throw InputError(start.checkpoint->folder,
                     "is of run " + state.run + ", and the folder's run is " + source_run,
                     "Go on with it in a folder of its own: --output FOLDER.");
  }
  if (here) start.run = source_run.empty() ? state.run : source_run;
  check_run_folder(start.folder, here);
  if (looks_closely) {
    start.in_the_way = damaged_after(start.folder.checkpoints(), here ? state.step : 0);
  }
}

/// Looks for an export of the run that goes on, which is not written again. Throws InputError where
/// something else is in the way.
void look_for_export(const TrainArguments& a, RunStart& start) {
  const std::optional<ExportRecord> there = read_export_record(a.export_folder);
  const bool is_own = there && !start.run.empty() && there->run == start.run;
  if (!is_own) return check_export_folder("--export", a.export_folder);
  if (there->step != a.steps) {
    throw InputError("--export:" + a.export_folder,
                     fmt::format("exists already: it holds this run's weights of step {}, and "
                                 "--steps is {}",
                                 there->step, a.steps),
                     "Name a folder that does not exist yet.");
  }
  start.exported = there;
  start.remarks.push_back(
      fmt::format("{} holds this run's weights of step {} already: they are not written again",
                  a.export_folder, there->step));
}

void check_export(const TrainArguments& a, RunStart& start, bool looks_closely) {
  const std::string where = "--export:" + a.export_folder;
  if (lies_in(a.out, a.export_folder)) {
    throw InputError(where, "would hold the run folder, " + a.out,
                     "Name a folder beside it, or a new one in it.");
  }
  if (lies_in(a.export_folder, start.folder.checkpoints())) {
    throw InputError(where, "lies among the checkpoints of the run",
                     "Name another folder, such as " + a.out + "/exported.");
  }
  if (resolved(resolved(a.export_folder).parent_path()) == resolved(a.out) &&
      is_run_file(resolved(a.export_folder).filename().string())) {
    throw InputError(where, "is the name of a file of the run", "Name another folder.");
  }
  if (looks_closely) look_for_export(a, start);
  start.export_source = read_export_source(a.model);
}

void check_room_for(const TrainArguments& a, const Architecture& architecture, const Plan& plan,
                    const RunStart& start) {
  std::vector<DiskNeed> needs;
  std::string hint = "Make room, or name another folder";
  if (a.checkpoint_interval.is_on() && !is_finished(a, start)) {
    needs.push_back({"--output", a.out, "a checkpoint", checkpoint_bytes(architecture)});
    hint += "; --checkpoint-every 0 writes no checkpoints";
  }
  if (!a.export_folder.empty() && !start.exported) {
    needs.push_back({"--export", a.export_folder, "the exported weights",
                     architecture.num_parameters() * size_of(tensor_type(plan.dtype)) +
                         companion_bytes(start.export_source)});
  }
  check_room(needs, hint + ".");
}

void remark_on_weights(const TrainArguments& a, RunStart& start) {
  if (a.checkpoint_interval.is_on()) return;
  start.remarks.emplace_back(
      a.export_folder.empty()
          ? "--checkpoint-every 0: no checkpoints, and without --export the weights are lost at "
            "the end"
          : "--checkpoint-every 0: no checkpoints; the weights are exported at the end");
}

void remark_on_warm_up(const TrainArguments& a, RunStart& start) {
  if (a.warmup_steps <= a.steps) return;
  start.remarks.push_back(fmt::format(
      "--warmup-steps {} of {} steps: the learning rate ends at {:.0f} % of --lr", a.warmup_steps,
      a.steps, 100 * static_cast<double>(a.steps) / static_cast<double>(a.warmup_steps + 1)));
}

}  // namespace

RunStart plan_start(const TrainArguments& a, const Architecture& architecture, const Plan& plan,
                    std::uint64_t layout, bool looks_closely) {
  RunStart start;
  start.folder = {a.out};
  if (a.resume) {
    resume(a, architecture, plan, layout, looks_closely, start);
  } else {
    check_run_folder(start.folder, false);
    if (looks_closely) start.in_the_way = damaged_after(start.folder.checkpoints(), 0);
  }
  if (!a.export_folder.empty()) check_export(a, start, looks_closely);
  if (looks_closely) check_room_for(a, architecture, plan, start);
  if (is_finished(a, start)) return start;
  remark_on_weights(a, start);
  remark_on_warm_up(a, start);
  return start;
}

void complete_start(const TrainArguments& a, const Architecture& architecture, const Plan& plan,
                    std::uint64_t layout, Collectives& ranks, RunStart& start) {
  if (!std::exchange(start.asks_ranks, false)) return;
  const auto peer_of = [&](int rank) {
    if (plan.snapshot_copies < 2) return -1;
    return peer_ranks(rank, ranks.world_size(), machine_ranks()).peer;
  };
  FoundMemory found = find_memory_of_ranks(kSharedMemoryFolder, start.run, peer_of, ranks);
  const std::string run = start.run;
  take_newest(std::move(found), a, architecture, plan, layout, run, start);
  if (!start.memory || start.memory->lost.empty()) return;
  start.remarks.push_back(
      fmt::format("the memory of {} of {} ranks is lost; they get their state from its copies",
                  std::ranges::count(start.memory->lost, true), start.memory->world_size));
}

int machine_ranks() {
  const RankInfo rank = rank_from_environment();
  const bool fill = rank.local_size > 0 && rank.rank % rank.local_size == rank.local_rank;
  return fill ? rank.local_size : 0;
}

bool is_finished(const TrainArguments& arguments, const RunStart& start) {
  // The last step may be in memory alone.
  return start.checkpoint && !start.memory && !start.asks_ranks &&
         start.checkpoint->state.step >= arguments.steps;
}

}  // namespace athanor::cli
