// SPDX-License-Identifier: Apache-2.0
#include "cli/train/clean.hpp"

#include "cli/common/command_line.hpp"
#include "executor/job/run_folder.hpp"
#include "executor/job/run_record.hpp"
#include "executor/memory/shared_memory.hpp"
#include "executor/snapshot/run_memory.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <string>
#include <vector>

namespace athanor::cli {
namespace {

/// Returns the identity of the run in a folder; empty where no folder is named.
std::string identity_of(const std::string& folder) {
  if (folder.empty()) return {};
  const std::string run = run_identity_in(read_run_record({folder}));
  if (!run.empty()) return run;
  throw InputError(folder, "holds no run.json that names a run",
                   "Name a run folder, or leave it out to free the memory of all killed runs.");
}

int run(const std::string& folder) {
  std::vector<RankMemory> held;
  const auto removed = remove_run_memory(kSharedMemoryFolder, identity_of(folder), held);
  for (const RankMemory& memory : removed) {
    fmt::print("freed {} of rank {} of run {}\n", format_bytes(memory.bytes), memory.rank,
               memory.run);
  }
  for (const RankMemory& memory : held) {
    fmt::print(stderr, "kept {} of rank {} of run {}: it is running\n", format_bytes(memory.bytes),
               memory.rank, memory.run);
  }
  if (removed.empty() && held.empty()) fmt::print("nothing is left in {}\n", kSharedMemoryFolder);
  return kExitDone;
}

}  // namespace

int clean(int argc, char** argv) {
  CLI::App app("Free the memory that killed runs have left.", "athanor clean");
  app.set_version_flag("--version", version_text());
  std::string folder;
  app.add_option("RUN", folder, "Run folder (default: every killed run of this user)");
  Action action = [&] { return run(folder); };
  return parse_and_run(app, action, argc, argv);
}

}  // namespace athanor::cli
