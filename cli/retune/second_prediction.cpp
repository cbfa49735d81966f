// SPDX-License-Identifier: Apache-2.0
#include "cli/retune/second_prediction.hpp"

#include "sim/base/errors.hpp"
#include "sim/cost/costs.hpp"
#include "sim/rates/measure_rates.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <exception>
#include <thread>
#include <utility>

namespace athanor::cli {

SecondPrediction::SecondPrediction(const RunFolder& folder, const Platform& platform,
                                   std::optional<Seconds> first, Say say)
    : folder_(folder), platform_(platform), prediction_{.first = first}, say_(std::move(say)) {}

void SecondPrediction::start(const Program& program, const Timeline& timeline, Priority priority) {
  try {
    const MeasuredRates rates = measure_rates(program, timeline, issue_seconds(program, platform_));
    prediction_.first_step = rates.first_step;
    prediction_.last_step = rates.last_step;
    write_measured_rates(folder_, rates);
    simulator_.emplace("athanor-sim",
                       std::vector<std::string>{"repredict", folder_.path, "--json", "--end-with",
                                                fmt::format("{}", ::getpid())},
                       priority);
  } catch (const std::exception& error) {
    fail(error.what());
  }
}

void SecondPrediction::fail(const std::string& why) {
  simulator_.reset();
  prediction_.absent = why;
  say_("the step is not predicted again: " + why);
  try {
    note_prediction(folder_, prediction_);
  } catch (const std::exception& error) {
    say_(error.what());
  }
}

std::optional<Seconds> SecondPrediction::take(const BackgroundProgram::Result& result) {
  if (!result.failure.empty()) {
    fail(result.failure);
    return std::nullopt;
  }
  const auto json = nlohmann::json::parse(result.output, nullptr, /*allow_exceptions=*/false);
  const auto seconds = json.is_object() ? json.find("repredicted_step_seconds") : json.end();
  if (seconds == json.end() || !seconds->is_number() || !(seconds->get<Seconds>() > 0)) {
    fail("athanor-sim printed no prediction");
    return std::nullopt;
  }
  prediction_.second = seconds->get<Seconds>();
  try {
    note_prediction(folder_, prediction_);
  } catch (const std::exception& error) {
    say_(error.what());
  }
  return prediction_.second;
}

std::optional<Seconds> SecondPrediction::poll() {
  if (!simulator_) return std::nullopt;
  const std::optional<BackgroundProgram::Result> result = simulator_->poll();
  if (!result) return std::nullopt;
  simulator_.reset();
  return take(*result);
}

std::optional<Seconds> SecondPrediction::wait(Seconds limit,
                                              const std::function<bool()>& gives_up) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kPause = std::chrono::milliseconds(5);
  const auto end = Clock::now() + std::chrono::duration<double>(limit);
  while (simulator_ && Clock::now() < end && !gives_up()) {
    if (const std::optional<Seconds> seconds = poll()) return seconds;
    if (simulator_) std::this_thread::sleep_for(kPause);
  }
  return std::nullopt;
}

void SecondPrediction::give_up() {
  if (simulator_) fail("the run ended before it was made");
}

std::string second_prediction_line(Seconds first, Seconds second) {
  if (first <= 0) return "with this machine's rates a step takes " + format_seconds(second);
  return fmt::format("step predicted {}; with this machine's rates {}", format_seconds(first),
                     format_seconds(second));
}

}  // namespace athanor::cli
