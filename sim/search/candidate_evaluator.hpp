// SPDX-License-Identifier: Apache-2.0
// Lowers single candidates, and bounds or simulates their programs.
#pragma once

#include "sim/bounds/bounds.hpp"
#include "sim/engine/engine.hpp"
#include "sim/policy/tuning_problem.hpp"
#include "sim/search/worker_pool.hpp"

#include <vector>

namespace athanor {

/// Evaluates candidates of one problem. Engine, `adam_threads` and
/// tables outlive this object.
class CandidateEvaluator {
 public:
  /// Takes a problem on a platform whose updates on the host take `host_update_slowdown` times as
  /// long as those of the platform that `engine` simulates. `adam_threads`: all that candidates
  /// have.
  CandidateEvaluator(const TuningProblem& problem, Engine& engine,
                     const std::vector<int>& adam_threads, double host_update_slowdown,
                     BoundTableCache& tables);

  /// Bounds or simulates on the problem's platform. A bound holds with any of `adam_threads`.
  [[nodiscard]] JobResult evaluate(const Job& job);
  /// Step time on the platform of the engine.
  [[nodiscard]] Seconds step_seconds_as_measured(const Candidate& candidate);

 private:
  [[nodiscard]] Program lowered(const Candidate& candidate) const;
  [[nodiscard]] JobResult simulated(const Program& program);

  TuningProblem problem_;
  Engine& engine_;
  const std::vector<int>& adam_threads_;
  double cpu_adam_speed_;  ///< relative to the engine's platform
  BoundTableCache& tables_;
};

}  // namespace athanor
