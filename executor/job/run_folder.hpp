// SPDX-License-Identifier: Apache-2.0
// The run folder: where a run keeps its plan, metrics, timeline and checkpoints.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/timeline.hpp"

#include <optional>
#include <string>

namespace athanor {

struct RunFolder {
  std::string path;
  [[nodiscard]] std::string metrics() const { return path + "/metrics.jsonl"; }
  [[nodiscard]] std::string checkpoints() const { return path + "/checkpoints"; }
  [[nodiscard]] std::string progress_board() const { return path + "/.heartbeat"; }
};

/// Throws InputError when `folder` cannot be used: it already holds a run (unless `resuming`), or
/// it cannot be created or written.
void check_run_folder(const RunFolder& folder, bool resuming);

/// A lock that rank 0 holds while it runs, so that no second run writes into the folder.
class RunFolderLock {
 public:
  /// Creates the folder. Throws InputError when another process holds the lock.
  explicit RunFolderLock(const RunFolder& folder);
  ~RunFolderLock();
  RunFolderLock(const RunFolderLock&) = delete;
  RunFolderLock& operator=(const RunFolderLock&) = delete;

 private:
  int descriptor_ = -1;
};

/// Writes the inputs of the run. `run_json` is the text of run.json.
void start_run_folder(const RunFolder& folder, const std::string& run_json, const Plan& plan,
                      const Profile& profile, const std::optional<Platform>& platform);

/// Writes measured.trace.json.
void write_measured_trace(const RunFolder& folder, const Program& program,
                          const Timeline& timeline);

}  // namespace athanor
