// SPDX-License-Identifier: Apache-2.0
// What single candidates take: their programs, bounded or simulated.
#pragma once

#include "sim/bounds/bounds.hpp"
#include "sim/engine/engine.hpp"
#include "sim/search/worker_pool.hpp"

#include <vector>

namespace athanor {

/// The referenced objects outlive this one.
class CandidateEvaluator {
 public:
  /// `platform` has updates on the host that take `host_update_slowdown` times as long as those of
  /// the platform that `engine` simulates. `adam_threads`: all that candidates may have.
  CandidateEvaluator(const Profile& profile, const Platform& platform, Engine& engine,
                     const PlanRequest& request, const std::vector<int>& adam_threads,
                     double host_update_slowdown);

  /// On `platform`. A bound holds for the candidate with any of `adam_threads`.
  [[nodiscard]] JobResult evaluate(const Job& job);
  /// Simulated on the platform of `engine`.
  [[nodiscard]] Seconds step_seconds_as_measured(const Candidate& candidate);

 private:
  [[nodiscard]] Program lowered(const Candidate& candidate) const;
  [[nodiscard]] Seconds bound_with_any_threads(Program program);
  [[nodiscard]] JobResult simulated(const Program& program);

  const Profile& profile_;
  const Platform& platform_;
  Engine& engine_;
  const PlanRequest& request_;
  const std::vector<int>& adam_threads_;
  double host_update_slowdown_;  ///< of the engine's
  BoundTableCache slowdowns_;
};

}  // namespace athanor
