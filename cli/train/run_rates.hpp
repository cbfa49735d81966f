// SPDX-License-Identifier: Apache-2.0
// Makes two things of a run's own rates: a second prediction, and with --retune a better plan.
#pragma once

#include "cli/retune/plan_search.hpp"
#include "cli/retune/second_prediction.hpp"
#include "cli/retune/step_watch.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/train/timeline_recorder.hpp"
#include "executor/train/trainer.hpp"
#include "executor/watch/job_watch.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace athanor::cli {

/// Steps until the rates are known. The first one starts from an idle machine and does not count.
/// The difference of the other two tells how sure they are.
inline constexpr std::int64_t kStepsToMeasure = 3;

/// Returns the same for a plan. Where it has CUDA graphs its first step launches kernels and its
/// second records them; the timeline has to be free of both.
[[nodiscard]] constexpr std::int64_t steps_to_measure(const Plan& plan) noexcept {
  constexpr std::int64_t kStepsToRecord = 2;
  return plan.cuda_graphs ? kStepsToRecord + TimelineRecorder::kWindow : kStepsToMeasure;
}

/// Returns why a run that starts after `first_step` steps has no second prediction; empty: it has.
[[nodiscard]] std::string why_no_second_prediction(const TrainArguments& arguments,
                                                   const TrainInputs& inputs,
                                                   std::int64_t first_step);

/// Every rank has one, and all make the same calls between steps. The work is rank 0's. Nothing
/// that fails here ends the run: it is said, and noted in run.json.
class RunRates {
 public:
  struct Site {
    int rank = 0;
    JobWatch& watch;
    SearchPace& pace;  ///< outlives the plan
    std::function<void(const std::string&)> say;
    /// Called with the plan's prediction, 0 if it has none, and the second one.
    std::function<void(Seconds first, Seconds second)> on_prediction;
  };

  /// All references outlive it. `first_step`: number of steps done. `change_seconds`: cost of a
  /// change of the plan, as this start has shown it.
  RunRates(const TrainArguments& arguments, const TrainInputs& inputs, Site site,
           std::int64_t first_step, Seconds change_seconds);

  /// Returns the step after which the rates are measured first; 0: never.
  [[nodiscard]] std::int64_t measures_after() const noexcept { return measures_after_; }
  /// Takes what is known by now, on rank 0. After a step.
  void note_step(const StepReport& report);
  /// Tells a pause from a stop, and measures where it is time. Every rank, after train_until().
  void measure_if_due(Trainer& trainer);
  /// Whether all ranks are to change to the plan in the candidate's folder. Every rank.
  [[nodiscard]] bool agrees_to_change(Trainer& trainer);
  /// Returns the plan that was found, on rank 0, once all agree to change to it.
  [[nodiscard]] const FoundPlan& found() const { return *better_; }
  /// Says that the plan could not be changed all the same.
  void keep_plan(std::int64_t step, const std::string& why);
  /// Waits a moment for what is under way, and then ends it.
  void end();

 private:
  void measure(Trainer& trainer);
  void look();
  void take(std::optional<Seconds> repredicted);
  void start_search();
  void take(const PlanSearch::Answer& answer);
  void weigh(const FoundPlan& found);
  void fail(const std::string& why);
  void note(const std::string& outcome, const std::string& why, const FoundPlan* found);
  void await(Seconds patience);
  [[nodiscard]] bool is_busy() const;

  const TrainArguments& arguments_;
  const TrainInputs& inputs_;
  Site site_;
  const Seconds predicted_, change_seconds_;
  std::int64_t measures_after_ = 0;
  std::int64_t step_ = 0;                   ///< latest that was noted
  std::optional<SecondPrediction> second_;  ///< on rank 0, where the run makes one
  std::optional<PlanSearch> search_;
  std::optional<FoundPlan> better_;  ///< to which the run shall change
  StepWatch watched_;
  bool searches_next_ = false;  ///< a search follows the second prediction
  bool wants_measure_ = false;  ///< steps depart from what was expected
  bool has_departed_ = false;   ///< the search was asked for by such steps
};

}  // namespace athanor::cli
