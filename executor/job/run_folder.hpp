// SPDX-License-Identifier: Apache-2.0
// The run folder: where a run keeps its plan, metrics, timeline and checkpoints. Nothing in it is
// read or written through a link.
#pragma once

#include "executor/job/run_record.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/model/timeline.hpp"
#include "sim/rates/rates.hpp"

#include <optional>
#include <string>

namespace athanor {

struct RunFolder {
  std::string path;
  [[nodiscard]] std::string run_record() const { return path + "/run.json"; }
  [[nodiscard]] std::string metrics() const { return path + "/metrics.jsonl"; }
  [[nodiscard]] std::string checkpoints() const { return path + "/checkpoints"; }
  [[nodiscard]] std::string retunes() const { return path + "/retunes"; }
  [[nodiscard]] std::string tensorboard() const { return path + "/tensorboard"; }
};

/// Throws InputError when `folder` cannot be used: it already holds a run (unless `resuming` that
/// run), it cannot be created or written, or what lies under one of its names is not the run's.
void check_run_folder(const RunFolder& folder, bool resuming);

/// Whether a run writes a file of this name into its folder.
[[nodiscard]] bool is_run_file(const std::string& name);

/// Returns the text of run.json; empty where there is none that can be read.
[[nodiscard]] std::string read_run_record(const RunFolder& folder);

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

/// Removes the temporary files of a killed process, and writes the inputs of the run. `start` is
/// the JSON object that run.json gets, `run` the identity.
void start_run_folder(const RunFolder& folder, const std::string& start, const std::string& run,
                      const Plan& plan, const Profile& profile,
                      const std::optional<Platform>& platform);

/// Writes rates.json.
void write_measured_rates(const RunFolder& folder, const MeasuredRates& rates);

/// Notes the prediction in run.json.
void note_prediction(const RunFolder& folder, const RunPrediction& prediction);

/// Appends a JSON object to run.json's list `retunes`: what a search for a better plan came to.
void note_retune(const RunFolder& folder, const std::string& json);

/// Writes measured.trace.json.
void write_measured_trace(const RunFolder& folder, const Program& program,
                          const Timeline& timeline);

}  // namespace athanor
