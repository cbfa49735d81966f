// SPDX-License-Identifier: Apache-2.0
// The way of a run from one plan to the next, at a checkpoint and in the same processes.
#pragma once

#include "cli/retune/plan_search.hpp"
#include "cli/retune/step_watch.hpp"
#include "cli/train/arguments.hpp"
#include "cli/train/inputs.hpp"
#include "executor/job/step_report.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace athanor::cli {

/// The inputs with which a run goes on, change by change. Every rank has one.
class PlanChanges {
 public:
  using Say = std::function<void(const std::string&)>;

  PlanChanges(TrainArguments arguments, TrainInputs inputs)
      : arguments_(std::move(arguments)), inputs_(std::move(inputs)) {}

  [[nodiscard]] const TrainArguments& arguments() const noexcept { return arguments_; }
  [[nodiscard]] const TrainInputs& inputs() const noexcept { return inputs_; }
  [[nodiscard]] SearchPace& pace() noexcept { return pace_; }
  /// Whether the run goes on after a change of the plan.
  [[nodiscard]] bool has_changed() const noexcept { return has_changed_; }

  /// Makes the plan that was found the run's, on rank 0, once the checkpoint of `step` is whole,
  /// and says so. Returns its number; 0 where that failed, which `failed` is told.
  [[nodiscard]] int adopt(const FoundPlan& found, std::int64_t step, const Say& say,
                          const Say& failed);
  /// Notes when the change to that plan began. Every rank calls it.
  void go_to(const FoundPlan* found, int number, Seconds start);
  /// Takes the inputs of the plan to which the run goes; false: it stays.
  [[nodiscard]] bool take_next();
  /// Returns the times of a change at the start of the first step after it; nothing later.
  [[nodiscard]] std::optional<PlanChangeReport> end(Seconds first_step);

 private:
  TrainArguments arguments_;
  TrainInputs inputs_;
  SearchPace pace_;
  int next_ = 0;  ///< number of the adopted plan; 0: none
  bool has_changed_ = false;
  Seconds started_ = 0;
  std::optional<PlanChangeReport> report_;
};

}  // namespace athanor::cli
