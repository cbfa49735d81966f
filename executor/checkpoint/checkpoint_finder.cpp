// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_finder.hpp"

#include "executor/checkpoint/checkpoint_format.hpp"
#include "executor/checkpoint/checkpoint_reader.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;

fs::file_status status_of(const fs::path& path) {
  std::error_code error;  // the status says it
  return fs::symlink_status(path, error);
}

bool holds_checkpoint_files(const fs::path& folder) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == kStateFile || is_rank_file_name(name)) return true;
  }
  return static_cast<bool>(error);  // a folder that cannot be read may be one
}

std::string problem_of_files(const fs::path& folder, const CheckpointState& state) {
  for (const CheckpointFile& file : state.files) {
    const fs::path path = folder / file.name;
    const fs::file_status status = status_of(path);
    if (!fs::exists(status)) return path.string() + " is missing";
    if (!fs::is_regular_file(status)) return path.string() + " is no regular file";
    std::error_code error;
    const auto bytes = fs::file_size(path, error);
    if (error) return path.string() + ": " + error.message();
    if (static_cast<Bytes>(bytes) != file.bytes) {
      return fmt::format("{} has {} bytes instead of {}", path.string(), bytes, file.bytes);
    }
  }
  return {};
}

/// Message of an InputError without its way out; who finds the problem knows a better one.
std::string without_hint(std::string_view message) {
  return std::string(message.substr(0, message.find(std::string(". ") + kOtherCheckpoint)));
}

/// Looks at a folder; `step` is -1 where its name says none.
FoundCheckpoint look_at(const fs::path& folder, std::int64_t step) {
  FoundCheckpoint found{folder.string(), step, std::nullopt, {}};
  if (fs::is_symlink(status_of(folder))) {
    found.problem = folder.string() + " is a link, which is not followed";
    return found;
  }
  try {
    found.state = read_checkpoint_state((folder / kStateFile).string());
  } catch (const InputError& error) {
    found.problem = without_hint(error.what());
    return found;
  }
  if (step >= 0 && found.state->step != step) {
    found.problem = fmt::format("{} is of step {}, not of the step of its folder's name",
                                (folder / kStateFile).string(), found.state->step);
  } else {
    found.problem = problem_of_files(folder, *found.state);
  }
  return found;
}

/// Text such as "step 20 of run 12ab".
std::string described(const FoundCheckpoint& found) {
  const std::string& run = found.state->run;
  return fmt::format("step {} of run {}", found.step, run.empty() ? "(unnamed)" : run);
}

/// Returns the only run that has whole checkpoints. Throws InputError where there are several.
std::string only_run(const std::string& checkpoints, const std::vector<FoundCheckpoint>& all) {
  std::set<std::string> runs;
  for (const FoundCheckpoint& found : all) {
    if (found.problem.empty() && !found.state->run.empty()) runs.insert(found.state->run);
  }
  if (runs.size() > 1) {
    throw InputError(
        checkpoints,
        fmt::format("holds checkpoints of {} runs, and no readable run.json says which "
                    "of them is this folder's",
                    runs.size()),
        "Select one, and go on in a folder of its own: --resume "
        "RUN/checkpoints/step-.. --output FOLDER.");
  }
  return runs.empty() ? std::string() : *runs.begin();
}

[[noreturn]] void refuse_no_checkpoint(const std::string& checkpoints,
                                       const std::vector<FoundCheckpoint>& all) {
  std::string problem = "holds no complete checkpoint";
  if (!all.empty()) {
    const FoundCheckpoint& last = all.back();
    problem += "; the last is not this run's or not whole: " +
               (last.problem.empty() ? last.folder + " is " + described(last) : last.problem);
  }
  throw InputError(checkpoints, problem, "Leave --resume out to start afresh in another folder.");
}

/// Refuses a checkpoint that is later than the newest whole one.
[[noreturn]] void refuse_newer(const FoundCheckpoint& newer, const FoundCheckpoint& newest) {
  if (!newer.problem.empty()) {
    throw InputError(
        newer.folder, "is the newest checkpoint and cannot be used: " + newer.problem,
        fmt::format("The one before it is step {}: --resume {}", newest.step, newest.folder));
  }
  throw InputError(
      newer.folder,
      fmt::format("is {}, and this folder's run has got to step {} only", described(newer),
                  newest.step),
      fmt::format("Move it out of the run folder, or go on in another folder: --resume {} --output "
                  "FOLDER",
                  newest.folder));
}

std::string way_out_after(const std::vector<FoundCheckpoint>& all, const std::string& run,
                          std::int64_t step) {
  const auto before = std::find_if(all.rbegin(), all.rend(), [&](const FoundCheckpoint& found) {
    return found.step < step && is_whole_of(found, run);
  });
  if (before == all.rend()) return "There is no checkpoint before it.";
  return fmt::format("The one before it is step {}: --resume {}", before->step, before->folder);
}

}  // namespace

std::vector<FoundCheckpoint> list_checkpoints(const std::string& checkpoints) {
  std::vector<FoundCheckpoint> all;
  std::error_code error;
  if (fs::is_symlink(status_of(checkpoints))) return all;
  for (const fs::directory_entry& entry : fs::directory_iterator(checkpoints, error)) {
    const auto step = parse_checkpoint_name(entry.path().filename().string());
    const fs::file_status status = status_of(entry.path());
    if (!step || !(fs::is_directory(status) || fs::is_symlink(status))) continue;
    if (fs::is_directory(status) && !holds_checkpoint_files(entry.path())) continue;
    all.push_back(look_at(entry.path(), *step));
  }
  std::ranges::sort(all, {}, &FoundCheckpoint::step);
  return all;
}

bool is_whole_of(const FoundCheckpoint& found, const std::string& run) {
  return found.problem.empty() && (found.state->run.empty() || found.state->run == run);
}

ChosenCheckpoint choose_newest_checkpoint(const std::string& checkpoints,
                                          const std::string& run_if_known) {
  const std::vector<FoundCheckpoint> all = list_checkpoints(checkpoints);
  const std::string run = run_if_known.empty() ? only_run(checkpoints, all) : run_if_known;
  const auto newest = std::find_if(all.rbegin(), all.rend(), [&](const FoundCheckpoint& found) {
    return is_whole_of(found, run);
  });
  if (newest == all.rend()) refuse_no_checkpoint(checkpoints, all);
  if (newest != all.rbegin()) refuse_newer(*std::prev(newest), *newest);
  return {newest->folder, *newest->state, way_out_after(all, run, newest->step)};
}

ChosenCheckpoint choose_checkpoint(const std::string& folder) {
  const FoundCheckpoint found = look_at(fs::path(folder), -1);
  const std::string checkpoints = fs::path(folder).parent_path().string();
  const auto way_out = [&](const CheckpointState& state) {
    return way_out_after(list_checkpoints(checkpoints), state.run, state.step);
  };
  if (!found.problem.empty()) {
    throw InputError(folder, "cannot be used: " + found.problem,
                     found.state ? way_out(*found.state) : kOtherCheckpoint);
  }
  return {folder, *found.state, way_out(*found.state)};
}

std::vector<std::string> damaged_after(const std::string& checkpoints, std::int64_t step) {
  std::vector<std::string> damaged;
  for (const FoundCheckpoint& found : list_checkpoints(checkpoints)) {
    if (found.step <= step) continue;
    if (found.problem.empty() && find_damage(found.folder, *found.state).empty()) {
      throw InputError(
          found.folder,
          fmt::format("is {}, later than step {}, from which this run would go on",
                      described(found), step),
          "Go on in another folder (--output FOLDER), resume from the newest (--resume RUN), or "
          "move the later steps away.");
    }
    damaged.push_back(found.folder);
  }
  return damaged;
}

}  // namespace athanor
