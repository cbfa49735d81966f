// SPDX-License-Identifier: Apache-2.0
#include "cli/train/run_rates.hpp"

#include "cli/retune/adopted_plans.hpp"
#include "executor/backend/steady_clock.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <exception>
#include <thread>
#include <utility>

namespace athanor::cli {
namespace {

/// Seconds for which a run waits for what it was asked to wait for, and at its end.
constexpr Seconds kPatienceBetweenSteps = 600, kPatienceAtEnd = 2;

/// Wishes of a rank between steps, in one number.
constexpr std::uint64_t kStop = 1, kMeasure = 2;

}  // namespace

std::string why_no_second_prediction(const TrainArguments& arguments, const TrainInputs& inputs,
                                     std::int64_t first_step) {
  if (arguments.repredict == "off") return "--repredict off";
  if (!inputs.platform) return "the run has no platform";
  const std::int64_t steps = steps_to_measure(inputs.plan);
  if (arguments.steps <= first_step + steps) {
    return fmt::format("the run has no step after the {} that would be measured", steps);
  }
  return "";
}

RunRates::RunRates(const TrainArguments& arguments, const TrainInputs& inputs, Site site,
                   std::int64_t first_step, Seconds change_seconds)
    : arguments_(arguments),
      inputs_(inputs),
      site_(std::move(site)),
      predicted_(inputs.plan.prediction ? inputs.plan.prediction->step_seconds : 0),
      change_seconds_(change_seconds),
      step_(first_step),
      watched_(arguments.retune_margin) {
  const std::string absent = why_no_second_prediction(arguments, inputs, first_step);
  if (!absent.empty()) {
    if (arguments.retune && site_.rank == 0) site_.say("the plan is not tuned again: " + absent);
    return;
  }
  measures_after_ = first_step + steps_to_measure(inputs.plan);
  // A plan that was made from this run's own rates is searched for again only where it disappoints.
  searches_next_ = arguments.retune && !inputs.adopted;
  watched_.expect(predicted_);
  if (site_.rank != 0) return;
  second_.emplace(inputs.start.folder, *inputs.platform,
                  predicted_ > 0 ? std::optional(predicted_) : std::nullopt, site_.say);
}

bool RunRates::is_busy() const {
  return search_ || better_ || wants_measure_ || (second_ && second_->is_under_way());
}

void RunRates::note_step(const StepReport& report) {
  if (!second_) return;
  step_ = report.step;
  watched_.note(report.seconds);
  look();
  if (!arguments_.retune || step_ <= measures_after_ || is_busy()) return;
  if (!watched_.departs() || !site_.pace.allows(step_, steady_seconds())) return;
  wants_measure_ = has_departed_ = searches_next_ = true;
  site_.watch.want_pause(true);
}

/// Takes the answers that are there.
void RunRates::look() {
  const bool predicts = second_->is_under_way();
  take(second_->poll());
  if (predicts && !second_->is_under_way() && searches_next_) start_search();
  if (!search_) return;
  if (const std::optional<PlanSearch::Answer> answer = search_->poll()) take(*answer);
}

void RunRates::take(std::optional<Seconds> repredicted) {
  if (!repredicted) return;
  watched_.expect(*repredicted);
  site_.on_prediction(predicted_, *repredicted);
}

void RunRates::start_search() {
  searches_next_ = false;
  site_.pace.note_start(steady_seconds());
  const RunFolder& folder = inputs_.start.folder;
  try {
    remove_candidate(folder);
    search_.emplace(PlanSearch::Request{.run = folder,
                                        .output = candidate_folder(folder),
                                        .margin = arguments_.retune_margin,
                                        .within = inputs_.limits},
                    arguments_.repredict == "wait" ? Priority::Normal : Priority::Idle);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void RunRates::take(const PlanSearch::Answer& answer) {
  search_.reset();
  site_.pace.note_end(step_, steady_seconds());
  if (!answer.found) return fail(answer.failure);
  if (!answer.found->is_better) {
    if (std::exchange(has_departed_, false)) watched_.accept();
    return note(
        "kept",
        fmt::format("the best plan is predicted to take {} a step, and this one {}",
                    format_seconds(answer.found->best), format_seconds(answer.found->current)),
        &*answer.found);
  }
  weigh(*answer.found);
}

/// Takes a better plan, unless too few steps are left for the change to pay, or it does not fit.
void RunRates::weigh(const FoundPlan& found) {
  const auto left = static_cast<double>(arguments_.steps - step_);
  const Seconds gain = left * (found.current - found.best);
  has_departed_ = false;
  if (gain <= change_seconds_) {
    return note("kept",
                fmt::format("a better plan would gain {} over the {:.0f} steps that are left, and "
                            "the change takes some {}",
                            format_seconds(gain), left, format_seconds(change_seconds_)),
                &found);
  }
  try {
    if (candidate_has_failed(inputs_.start.folder)) {
      return note("kept", "a start under the better plan has failed before", &found);
    }
    static_cast<void>(
        inputs_under(arguments_, inputs_, {candidate_folder(inputs_.start.folder), ""}));
  } catch (const std::exception& error) {
    return note("kept", fmt::format("a better plan cannot run: {}", error.what()), &found);
  }
  better_ = found;
  site_.watch.want_pause(true);
}

void RunRates::fail(const std::string& why) {
  search_.reset();
  note("failed", why, nullptr);
}

void RunRates::note(const std::string& outcome, const std::string& why, const FoundPlan* found) {
  nlohmann::ordered_json json{{"after_step", step_}, {"outcome", outcome}, {"why", why}};
  if (found != nullptr) {
    json["current_step_seconds"] = found->current;
    json["best_step_seconds"] = found->best;
    json["moved_rates"] = found->moved_rates;
  }
  site_.say(outcome == "kept" ? "tuned again, and the plan stays: " + why
                              : "the plan is not tuned again: " + why);
  try {
    remove_candidate(inputs_.start.folder);
    note_retune(inputs_.start.folder, json.dump());
  } catch (const std::exception& error) {
    site_.say(error.what());
  }
}

void RunRates::keep_plan(std::int64_t step, const std::string& why) {
  step_ = step;
  better_.reset();
  note("failed", why, nullptr);
}

void RunRates::measure_if_due(Trainer& trainer) {
  site_.watch.want_pause(false);
  const bool is_first = trainer.steps_done() == measures_after_;
  bool measures = is_first;
  if (arguments_.retune) {
    const std::uint64_t wish =
        (site_.watch.is_stop_wanted() ? kStop : 0) | (wants_measure_ ? kMeasure : 0);
    const std::vector<std::uint64_t> wishes = trainer.exchange(wish);
    const auto any = [&](std::uint64_t of) {
      return std::ranges::any_of(wishes, [of](std::uint64_t each) { return (each & of) != 0; });
    };
    if (!any(kStop)) trainer.go_on();
    measures |= any(kMeasure);
  }
  if (measures && !trainer.is_stopping()) measure(trainer);
}

/// Lets rank 0 predict again from what every rank has measured.
void RunRates::measure(Trainer& trainer) {
  const Timeline timeline = trainer.timeline();
  const bool waits = arguments_.repredict == "wait";
  wants_measure_ = false;
  if (second_) {
    site_.watch.set_activity("it predicts the step again");
    step_ = trainer.steps_done();
    second_->start(trainer.program(), timeline, waits ? Priority::Normal : Priority::Idle);
    // Without a prediction there are rates all the same, or the search says what is wrong.
    if (!second_->is_under_way() && searches_next_) start_search();
    if (waits) await(kPatienceBetweenSteps);
    site_.watch.want_pause(false);  // an evaluation would take it for a stop
    site_.watch.set_activity("it is between steps");
  }
  if (waits) static_cast<void>(trainer.exchange(0));
}

void RunRates::await(Seconds patience) {
  constexpr auto kPause = std::chrono::milliseconds(5);
  const Seconds end = steady_seconds() + patience;
  while (steady_seconds() < end && !site_.watch.is_stop_wanted()) {
    look();
    if (!search_ && !second_->is_under_way()) return;
    std::this_thread::sleep_for(kPause);
  }
}

bool RunRates::agrees_to_change(Trainer& trainer) {
  if (!arguments_.retune || trainer.steps_done() >= arguments_.steps) return false;
  return trainer.exchange(better_ ? 1 : 0).front() != 0;
}

void RunRates::end() {
  if (!second_) return;
  take(second_->wait(kPatienceAtEnd, [this] { return site_.watch.is_stop_wanted(); }));
  second_->give_up();
  if (search_ || searches_next_) fail("the run ended before a plan was found");
  if (better_) keep_plan(step_, "the run ended before it could change to the better plan");
}

}  // namespace athanor::cli
