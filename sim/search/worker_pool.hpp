// SPDX-License-Identifier: Apache-2.0
// Jobs in forked copies of this process. SimGrid allows one engine per process, so candidates are
// simulated in several processes.
#pragma once

#include "sim/search/space/search_space.hpp"

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// One question to a worker. Jobs and results are plain bytes, because they go through a socket.
struct Job {
  std::int64_t index = 0;
  Candidate candidate = {};
  bool simulate = false;  ///< false: only bound the lowered program
};
struct JobResult {
  double seconds = 0;  ///< step time or its lower bound
  double joules = 0;   ///< energy of a simulated step
  std::array<char, 64> bottleneck{};
};

/// Worker processes. Each is a copy of this process as it was when the worker started. A worker
/// that has done many jobs is replaced, so that its memory does not grow with the search.
class WorkerPool {
 public:
  /// Starts the workers. The process must have no other thread. Throws Error when the system
  /// refuses a process.
  WorkerPool(int workers, std::function<JobResult(const Job&)> work);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Returns results in the order of `jobs`. Throws Error with the message of a job that threw, or
  /// when a worker died.
  [[nodiscard]] std::vector<JobResult> run(std::span<const Job> jobs);

  static constexpr int kJobsPerProcess = 2000;

 private:
  struct Worker {
    pid_t process = -1;
    int channel = -1;  ///< a socket: jobs out, results in
    int done = 0;
  };

  void start(Worker& worker);
  void stop(Worker& worker) noexcept;
  [[noreturn]] void serve(int channel) const;
  [[nodiscard]] JobResult receive(Worker& worker);

  std::function<JobResult(const Job&)> work_;
  std::vector<Worker> workers_;
};

}  // namespace athanor
