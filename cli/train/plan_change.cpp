// SPDX-License-Identifier: Apache-2.0
#include "cli/train/plan_change.hpp"

#include "cli/retune/adopted_plans.hpp"
#include "sim/base/quantities.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <exception>
#include <utility>

namespace athanor::cli {
namespace {

std::string change_json(const std::string& run, const FoundPlan& found, std::int64_t step,
                        Seconds predicted) {
  nlohmann::ordered_json json{{"run", run},
                              {"after_step", step},
                              {"first_step", found.first_step},
                              {"last_step", found.last_step},
                              {"moved_rates", found.moved_rates},
                              {"changes", found.changes},
                              {"predicted_step_seconds", predicted},
                              {"current_step_seconds", found.current},
                              {"best_step_seconds", found.best}};
  if (predicted <= 0) json["predicted_step_seconds"] = nullptr;
  return json.dump(2) + "\n";
}

/// Says where sums are rounded otherwise under another plan.
std::string rounding_text(const TrainInputs& inputs) {
  const bool by_nccl = inputs.platform && inputs.platform->backend == "cuda";
  if (!by_nccl || inputs.plan.world_size <= 2) return "";
  return "; NCCL adds in another order for it, so losses are the same to rounding";
}

std::string change_text(const FoundPlan& found, std::int64_t step, const TrainInputs& inputs) {
  const std::string why =
      found.moved_rates.empty() ? "" : fmt::format("{}; ", fmt::join(found.moved_rates, ", "));
  return fmt::format(
      "the plan is changed after step {}: {}with these rates a step is predicted to "
      "take {}, and {} by the new plan ({}{})",
      step, why, format_seconds(found.current), format_seconds(found.best),
      fmt::join(found.changes, "; "), rounding_text(inputs));
}

}  // namespace

int PlanChanges::adopt(const FoundPlan& found, std::int64_t step, const Say& say,
                       const Say& failed) {
  const Seconds predicted = inputs_.plan.prediction ? inputs_.plan.prediction->step_seconds : 0;
  try {
    const int number =
        adopt_candidate(inputs_.start.folder, inputs_.asked,
                        change_json(run_identity_in(read_run_record(inputs_.start.folder)), found,
                                    step, predicted));
    say(change_text(found, step, inputs_));
    return number;
  } catch (const std::exception& error) {
    failed(error.what());
    return 0;
  }
}

void PlanChanges::go_to(const FoundPlan* found, int number, Seconds start) {
  next_ = number;
  started_ = start;
  if (found != nullptr) report_ = {.before = found->current, .after = found->best, .seconds = 0};
}

bool PlanChanges::take_next() {
  if (next_ == 0) return false;
  arguments_.resume = true;
  arguments_.resume_run = arguments_.out;
  arguments_.resume_checkpoint.clear();
  inputs_ = inputs_under(arguments_, inputs_,
                         adopted_plan(inputs_.start.folder, std::exchange(next_, 0)));
  start_again(arguments_, inputs_);
  has_changed_ = true;
  return true;
}

std::optional<PlanChangeReport> PlanChanges::end(Seconds first_step) {
  if (report_) report_->seconds = first_step - started_;
  return std::exchange(report_, std::nullopt);
}

}  // namespace athanor::cli
