// SPDX-License-Identifier: Apache-2.0
// Two "machines": network namespaces with host names and process numbers of their own, and a link
// between them.
#pragma once

#include "tests/train/processes.hpp"

#include <csignal>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace athanor::test {

/// Machines a and b. A link with a delay leads through a third namespace, m.
class TwoMachines {
 public:
  explicit TwoMachines(double delay = 0);
  ~TwoMachines();
  TwoMachines(const TwoMachines&) = delete;
  TwoMachines& operator=(const TwoMachines&) = delete;

  /// Whether namespaces can be made here, and mpirun started.
  [[nodiscard]] bool works() const { return works_; }
  void cut() const;
  /// Gives each machine a /dev/shm of its own, for what is started from now on: it outlives its
  /// processes, as a machine's does, and lies in the folder `shared`, which both machines see.
  void give_own_memory(const std::string& shared);
  /// Returns the folder in which this test sees a machine's /dev/shm.
  [[nodiscard]] std::string memory_folder(char side) const;
  /// Returns the words that run `command` under mpirun, with so many ranks on a and then on b.
  [[nodiscard]] std::vector<std::string> across(const std::vector<std::string>& command,
                                                int ranks_each = 1) const;
  /// Returns the words that start torchrun on one of the two, for such a job.
  [[nodiscard]] std::vector<std::string> torchrun(char side,
                                                  const std::vector<std::string>& command,
                                                  int ranks_each) const;
  /// Returns the addresses at which the processes of a machine listen on networks, as ss prints
  /// them.
  [[nodiscard]] std::string listening(char side) const;

 private:
  void make(const std::string& command);
  void join(char side, const std::string& interface, char other_side, const std::string& other);
  [[nodiscard]] std::string name(char side) const;
  [[nodiscard]] std::string link(char side) const;
  [[nodiscard]] std::string subnet() const;
  [[nodiscard]] std::string address(char side) const;
  [[nodiscard]] std::vector<std::string> on(char side) const;
  [[nodiscard]] std::string mounts(char side) const;
  void write_agent() const;

  const int id_;
  TemporaryFolder folder_;
  bool works_ = false;
  std::string shared_;  ///< empty: the machines have this one's /dev/shm
  std::optional<RunningProgram> carrier_;
};

enum class Launcher { Mpirun, Torchrun };

/// Whether there is a Python with torchrun.
[[nodiscard]] bool has_torchrun();

/// A job on both machines. torchrun is started on each of them.
class TwoMachineJob {
 public:
  TwoMachineJob(const TwoMachines& machines, Launcher launcher,
                const std::vector<std::string>& command, int ranks_each);

  /// Ends everything on one machine at once, as a loss of power does.
  void kill(char side) { programs_.at(side - 'a')->signal_all(SIGKILL); }
  /// Waits for the end on all machines. Returns what was said, and the first failure.
  [[nodiscard]] Finished wait(double limit);

 private:
  std::vector<std::unique_ptr<RunningProgram>> programs_;
};

}  // namespace athanor::test
