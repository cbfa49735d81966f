// SPDX-License-Identifier: Apache-2.0
#include "sim/search/candidate_evaluator.hpp"

#include "sim/engine/simulation_options.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/report/explain.hpp"

#include <algorithm>
#include <string>

namespace athanor {
CandidateEvaluator::CandidateEvaluator(const TuningProblem& problem, Engine& engine,
                                       const std::vector<int>& adam_threads,
                                       double host_update_slowdown, BoundTableCache& tables)
    : problem_(problem),
      engine_(engine),
      adam_threads_(adam_threads),
      cpu_adam_speed_(1 / host_update_slowdown),
      tables_(tables) {}

JobResult CandidateEvaluator::evaluate(const Job& job) {
  const Program program = lowered(job.candidate);
  if (job.simulate) return simulated(program);
  // Plans that differ only in threads are one program.
  ProgramBound bound(program, problem_.platform);
  return {.seconds = bound.least_seconds(adam_threads_, tables_)};
}

Seconds CandidateEvaluator::step_seconds_as_measured(const Candidate& candidate) {
  return engine_.simulate(lowered(candidate), {.record_intervals = false}).step_seconds;
}

Program CandidateEvaluator::lowered(const Candidate& candidate) const {
  return lower(problem_.profile, make_plan(candidate, problem_.profile, problem_.request));
}

JobResult CandidateEvaluator::simulated(const Program& program) {
  SimulationOptions simulation{.record_intervals = false};
  simulation.lane_speed[lane_index(Lane::CpuAdam)] = cpu_adam_speed_;
  const Timeline timeline = engine_.simulate(program, simulation);
  JobResult result{.seconds = timeline.step_seconds, .joules = timeline.step_joules};
  const std::string busiest =
      utilizations(program, problem_.platform, tables_.at(program.cpu_adam_threads), result.seconds)
          .front()
          .name;
  busiest.copy(result.bottleneck.data(), result.bottleneck.size() - 1);
  return result;
}

}  // namespace athanor
