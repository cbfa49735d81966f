// SPDX-License-Identifier: Apache-2.0
#include "executor/train/evaluation.hpp"

#include "executor/backend/steady_clock.hpp"
#include "sim/base/errors.hpp"
#include "sim/lowering/lowering.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace athanor {
namespace {

class Evaluator {
 public:
  Evaluator(const EvaluationSite& site, const EvaluationSource& source)
      : source_(source),
        plan_(site.training.plan),
        program_(lower_evaluation(site.profile, plan_)),
        context_{program_,
                 plan_,
                 site.training.memory,
                 site.training.device,
                 site.training.collectives,
                 site.training.host_collectives,
                 site.training.watch,
                 /*snapshot=*/nullptr,
                 /*redo=*/nullptr},
        trained_(site.trained),
        runner_(context_, site.profile.architecture, site.runners, source.batches, {}),
        num_steps_((source.num_samples + plan_.global_batch() - 1) / plan_.global_batch()) {
    for (std::int64_t i = 0; i < kStepStates; ++i) {
      states_.push_back(
          {StepScalars(program_, plan_, context_.collectives.rank(), context_.device)});
    }
    lanes_.emplace(
        context_, runner_, [this](std::int64_t step) -> const StepState& { return state_of(step); },
        site.backend, site.cancelled,
        RankLanes::Options{
            .first_step = 0, .step_name = "evaluation step", .deadline = site.deadline});
  }

  std::optional<EvaluationReport> run() {
    const Seconds start = steady_seconds();
    std::int64_t prepared = 0;
    for (std::int64_t step = 0; step < num_steps_; ++step) {
      for (; prepared < std::min(num_steps_, step + kStepsAhead); ++prepared) {
        state_of(prepared).step = prepared;
        state_of(prepared).trained = trained_;
      }
      lanes_->release_until(prepared);
      lanes_->wait_for_step(step);
      state_of(step).scalars.require_room("evaluation step", step + 1);
      add_losses(step);
      // All ranks know of the same wishes. Steps that are released end with the lanes.
      if (!state_of(step).scalars.is_stop_wished()) continue;
      while (++step < prepared) lanes_->wait_for_step(step);
      return std::nullopt;
    }
    const double loss = sum_ / static_cast<double>(num_targets_);
    if (!std::isfinite(loss)) {
      throw Error(fmt::format("the evaluation's loss is {}. Lower --lr, or check the data.", loss));
    }
    return EvaluationReport{loss, num_targets_, steady_seconds() - start};
  }

 private:
  StepState& state_of(std::int64_t step) {
    return states_[static_cast<std::size_t>(step) % states_.size()];
  }

  /// Adds the micro-batches of a step in the order of their samples.
  void add_losses(std::int64_t step) {
    const StepScalars& scalars = state_of(step).scalars;
    std::int64_t first = step * plan_.global_batch();
    for (std::int32_t micro_batch = 0; micro_batch < plan_.accumulation; ++micro_batch) {
      for (int rank = 0; rank < plan_.world_size; ++rank, first += plan_.micro_batch) {
        const std::int64_t targets = source_.num_targets(first, plan_.micro_batch);
        if (targets == 0) continue;
        sum_ += scalars.gathered_loss(rank, micro_batch) * static_cast<double>(targets);
        num_targets_ += targets;
      }
    }
  }

  const EvaluationSource& source_;
  const Plan& plan_;
  const Program program_;
  const RankContext context_;
  const std::int64_t trained_;
  OpRunner runner_;
  const std::int64_t num_steps_;
  std::vector<StepState> states_;  ///< [step % size], a ring
  double sum_ = 0;
  std::int64_t num_targets_ = 0;
  std::optional<RankLanes> lanes_;  ///< last: they use all the others
};

}  // namespace

std::optional<EvaluationReport> evaluate(const EvaluationSite& site,
                                         const EvaluationSource& source) {
  return Evaluator(site, source).run();
}

}  // namespace athanor
