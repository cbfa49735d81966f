// SPDX-License-Identifier: Apache-2.0
#include "cli/train/launch.hpp"

#include "cli/train/log/recovery_times.hpp"
#include "cli/train/session.hpp"
#include "executor/checkpoint/checkpoint_finder.hpp"
#include "executor/job/run_record.hpp"
#include "executor/memory/shared_memory.hpp"
#include "executor/rendezvous/rank_launcher.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace athanor::cli {
namespace {

/// Time in which ranks say what they saw. What they would save by then is in memory.
constexpr Seconds kGraceBeforeRestart = 1;

JobEnd run_once(const TrainArguments& arguments, bool cuda, std::span<char* const> argv) {
  const Seconds grace = arguments.max_restarts > 0 ? kGraceBeforeRestart : kReportGrace;
  const int ranks = std::max(1, arguments.num_processes);
  return cuda || ranks == 1 ? run_ranks(ranks, argv, grace)
                            : run_ranks_under_mpirun(ranks, argv, grace);
}

/// Newest step of the run, in memory or on disk; -1: there is none.
std::int64_t newest_step(const RunFolder& folder) {
  const std::string run = run_identity_in(read_run_record(folder));
  std::int64_t newest = -1;
  if (const FoundMemory found = find_run_memory(kSharedMemoryFolder, run); found.memory) {
    newest = found.memory->steps;
  }
  for (const FoundCheckpoint& found : list_checkpoints(folder.checkpoints())) {
    if (is_whole_of(found, run)) newest = std::max(newest, found.step);
  }
  return newest;
}

void note_restart(Seconds ending) {
  ::setenv(kRestartVariable, fmt::format("{:.6f} {:.6f}", ending, seconds_since_epoch()).c_str(),
           1);
}

}  // namespace

std::vector<std::string> resuming(std::span<char* const> words, const std::string& out) {
  std::vector<std::string> kept;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    if (word == "--resume") {
      const bool has_value = i + 1 < words.size() && words[i + 1][0] != '-';
      if (has_value) ++i;
    } else if (!word.starts_with("--resume=")) {
      kept.emplace_back(word);
    }
  }
  kept.insert(kept.end(), {"--resume", out});
  return kept;
}

int launch(const TrainArguments& arguments, const TrainInputs& inputs,
           std::span<char* const> argv) {
  const bool cuda = uses_cuda(arguments, inputs);
  JobEnd end = run_once(arguments, cuda, argv);
  std::vector<std::string> words = resuming(argv, arguments.out);
  std::vector<char*> again;
  for (std::string& word : words) again.push_back(word.data());
  for (int restart = 1; restart <= arguments.max_restarts && end.lost_process; ++restart) {
    const std::int64_t newest = newest_step(inputs.start.folder);
    if (newest < 0) {
      say("there is nothing to start again from");
      break;
    }
    say(fmt::format("restart {} of {}, from step {}", restart, arguments.max_restarts, newest));
    note_restart(end.ending);
    end = run_once(arguments, cuda, again);
  }
  return end.exit_code;
}

}  // namespace athanor::cli
