// SPDX-License-Identifier: Apache-2.0
#include "cli/rates/rated_run.hpp"

#include "sim/base/errors.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"

#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <tuple>
#include <utility>

namespace athanor::cli {
namespace {

struct Moved {
  Seconds change = 0;  ///< seconds of a step
  std::string text;
};

Moved moved(const std::string& name, Lane lane, Seconds before, Seconds after) {
  return {std::abs(after - before), fmt::format("{} on {} takes {:.2g} times as long as predicted",
                                                name, lane_name(lane), after / before)};
}

}  // namespace

RatedRun rate_run(const std::string& run) {
  const auto in_run = [&](const char* name) {
    return (std::filesystem::path(run) / name).string();
  };
  RatedRun rated;
  rated.plan = read_plan(in_run("plan.json"));
  rated.profile = read_profile(in_run("profile.json"));
  rated.platform = read_platform(in_run("platform.json"));
  rated.measured = read_rates(in_run("rates.json"));
  rated.program = lower(rated.profile, rated.plan);
  Engine engine(rated.platform, rated.plan.world_size);
  const Timeline predicted = engine.simulate(rated.program);
  rated.predicted = predicted.step_seconds;
  rated.combined = combine_rates(
      rated.program, measure_rates(rated.program, predicted), rated.measured,
      repetition_spreads(rated.program, rated.profile, rated.plan, rated.platform), rated.platform);
  rated.again = fit_rates(engine, rated.program, predicted, wanted(rated.combined));
  return rated;
}

void end_with(pid_t parent) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) throw Error("the process that asked has ended");
}

std::vector<std::string> moved_rates(const RatedRun& run) {
  constexpr double kCounts = 0.01;
  constexpr std::size_t kMost = 3;
  std::vector<Moved> rates;
  for (const CombinedRate& rate : run.combined.rates) {
    rates.push_back(moved(rate_name(rate.key), rate.key.lane, rate.predicted, rate.combined));
  }
  if (const auto& launches = run.combined.launches) {
    rates.push_back({std::abs(launches->combined - launches->calibrated),
                     fmt::format("a launch takes {:.2g} times as long as predicted",
                                 launches->combined / launches->calibrated)});
  }
  std::erase_if(rates, [&](const Moved& rate) {
    return rate.change < kCounts * run.again.timeline.step_seconds;
  });
  std::ranges::sort(rates, {},
                    [](const Moved& rate) { return std::tuple(-rate.change, rate.text); });
  std::vector<std::string> texts;
  for (Moved& rate : rates) {
    if (texts.size() < kMost) texts.push_back(std::move(rate.text));
  }
  return texts;
}

}  // namespace athanor::cli
