// SPDX-License-Identifier: Apache-2.0
// The processes of a training job and what they leave, found without the job's help. Only those of
// one run folder are seen, because other tests run beside.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace athanor::test {

/// Returns all processes that have the run folder among their arguments.
[[nodiscard]] std::vector<pid_t> processes_of(const std::string& run);
/// Returns the ranks of the job, [rank]; empty until all `world_size` are there.
[[nodiscard]] std::vector<pid_t> ranks_of(const std::string& run, int world_size);
/// Waits until all ranks of a job are under way, and returns them. Fails the test after `seconds`.
[[nodiscard]] std::vector<pid_t> wait_for_steps(const std::string& run, int seconds,
                                                int world_size = 2);
/// Returns the job's mpirun; 0: there is none.
[[nodiscard]] pid_t mpirun_of(const std::string& run);
[[nodiscard]] std::string variable_of(pid_t process, const std::string& name);
[[nodiscard]] char state_of(pid_t process);

/// Files of MPI that lie where the job had them, or would have had them.
class MpiFiles {
 public:
  /// Notes the places of a job, which must be running. `launcher`: its first process.
  MpiFiles(const std::string& run, pid_t launcher);
  /// Returns what is there.
  [[nodiscard]] std::vector<std::string> left() const;
  /// Returns what is there still, some seconds after the job: the cleaner takes a moment.
  [[nodiscard]] std::vector<std::string> left_behind() const;
  /// Whether a rank had started a process that cleans up after an mpirun of the user's.
  [[nodiscard]] bool has_cleaner() const noexcept { return has_cleaner_; }

 private:
  std::string launcher_folder_, session_folder_, segments_;
  bool has_cleaner_ = false;
};

/// Waits up to `seconds` until the processes have ended; returns those that have not.
[[nodiscard]] std::vector<pid_t> wait_until_ended(std::vector<pid_t> processes, double seconds);
/// Waits up to `seconds` until no process of the run is left; returns those that are.
[[nodiscard]] std::vector<pid_t> wait_until_gone(const std::string& run, double seconds);
/// Returns a line for each process: its number, its state and its command.
[[nodiscard]] std::string described(const std::vector<pid_t>& processes);

}  // namespace athanor::test
