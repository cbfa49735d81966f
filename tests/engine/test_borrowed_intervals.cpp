// SPDX-License-Identifier: Apache-2.0
// Intervals of predictions with borrowed rates against recorded runs: profiles scaled from another
// GPU, and platforms made from data sheets, which no lease of their machine was needed for. Spreads
// are computed again from rates. Step times of runs only say whether intervals hold.
#include "sim/cost/scaling.hpp"
#include "sim/engine/prediction_interval.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "sim/rates/measure_rates.hpp"
#include "tests/engine/records.hpp"
#include "tests/engine/whole_master.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using Catch::Matchers::WithinRel;
using nlohmann::json;

/// A recorded run on its own machine, as it was predicted.
struct RecordedRun {
  std::string name;
  json run;
  Platform platform;
  Profile profile;

  [[nodiscard]] int gpus() const { return run.at("gpus").get<int>(); }
  [[nodiscard]] bool is_h100() const { return platform.device != "NVIDIA H200"; }
};

/// Returns runs of whose machine there is a data sheet: without files, whose drives are on no
/// sheet, without those GPUs whose ways to each other were switched off, and without the lease from
/// which the shares were taken that sheets assume of their peaks.
std::vector<RecordedRun> runs_with_sheets() {
  std::vector<RecordedRun> runs;
  for (const std::string& name : test::recorded_runs()) {
    const json record = test::read_record(name);
    if (record.contains("environment") || name.starts_with("2026-11-21-h200x4/")) continue;
    for (const json& run : record.at("runs")) {
      if (run.contains("nvme")) continue;
      runs.push_back(
          {name, run, test::platform_of(run, record, name), test::profile_of(run, name)});
    }
  }
  return runs;
}

std::string path_in(const std::string& folder) { return test::record_path("../../" + folder); }

/// Returns the sheet of the half of a machine on which the run's virtual machine lay.
Platform sheet_of(const RecordedRun& run) {
  return read_platform(
      path_in(run.is_h100() ? "platforms/h100-sxmx4-half.json" : "platforms/h200x4-half.json"));
}

/// Returns the other GPU's profile of the run's model, scaled to `platform`; nothing where there is
/// none of the same kernels. Profiles that end in a day are of older programs.
std::optional<Profile> scaled_profile(const RecordedRun& run, const Platform& platform) {
  const auto model = run.run.at("model").get<std::string>();
  const bool is_old =
      run.run.at("profile").get<std::string>().find("-2026-11-2") != std::string::npos;
  if (!model.starts_with("gpt2-") || is_old) return std::nullopt;
  const std::string gpu = run.is_h100() ? "h200" : "h100";
  const std::string machine = run.is_h100() ? "2026-11-23-h200x1-c" : "2026-11-23-h100x1";
  return scale_profile(
      read_profile(path_in("traces/profiles/" + gpu + "-" + model + ".profile.json")),
      read_platform(test::record_path(machine + "/platform.json")), platform);
}

/// A run predicted with borrowed rates.
struct Outcome {
  bool inside = false;           ///< the run took a time within the interval
  double width = 0;              ///< width of the interval over the step
  std::map<Lane, double> rates;  ///< logarithm of borrowed over calibrated rates
};

std::map<Lane, Seconds> lane_seconds(const Program& program, const Timeline& timeline) {
  std::map<Lane, Seconds> lanes;
  for (const auto& [key, rate] : measure_rates(program, timeline).rates) {
    lanes[key.lane] += rate.seconds;
  }
  return lanes;
}

Program program_of(const RecordedRun& run, const Profile& profile) {
  Program program = lower(profile, test::plan_of(run.run));
  return run.run.value("split_master", false) ? program
                                              : test::with_whole_masters(std::move(program));
}

/// Logarithms of a lane's time over what its calibration gives, of lanes that have a share of the
/// step.
std::map<Lane, double> rates_against(const std::map<Lane, Seconds>& borrowed,
                                     const RecordedRun& run) {
  constexpr double kCounts = 0.01;
  const Program program = program_of(run, run.profile);
  const Timeline calibrated = Engine(run.platform, run.gpus()).simulate(program);
  std::map<Lane, double> rates;
  for (const auto& [lane, seconds] : lane_seconds(program, calibrated)) {
    if (seconds < kCounts * calibrated.step_seconds) continue;
    rates[lane] = std::log(borrowed.at(lane) / seconds);
  }
  return rates;
}

Outcome outcome_of(const RecordedRun& run, const Platform& platform, const Profile& profile) {
  const Program program = program_of(run, profile);
  Outcome outcome;
  std::map<Lane, Seconds> lanes;
  {
    Engine engine(platform, run.gpus());
    const Timeline predicted = engine.simulate(program);
    lanes = lane_seconds(program, predicted);
    const PredictionInterval interval = interval_of(
        predicted.step_seconds,
        rate_deviations(engine, program, predicted,
                        repetition_spreads(program, profile, test::plan_of(run.run), platform),
                        platform, borrowed_rates(profile, platform)));
    const double measured = run.run.at("step_seconds");
    outcome.inside = interval.p10 <= measured && measured <= interval.p90;
    outcome.width = (interval.p90 - interval.p10) / predicted.step_seconds;
  }
  outcome.rates = rates_against(lanes, run);  // SimGrid allows one engine at a time
  return outcome;
}

double standard_deviation(const std::vector<double>& values) {
  const auto count = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / count;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / count);
}

/// Checks the spread of a lane's borrowed rates.
void check_spread(const std::vector<Outcome>& outcomes, Lane lane, const BorrowedRates& borrowed) {
  std::vector<double> rates;
  for (const Outcome& outcome : outcomes) {
    if (outcome.rates.contains(lane)) rates.push_back(outcome.rates.at(lane));
  }
  INFO(lane_name(lane) << " of " << rates.size() << " runs");
  REQUIRE(rates.size() > 90);
  CHECK_THAT(borrowed_spread(lane, borrowed), WithinRel(standard_deviation(rates), 0.05));
}

/// Checks that the intervals hold `least` to `most` of the runs, and how wide they are.
void check_intervals(const std::vector<Outcome>& outcomes, double widest, double least = 0.7,
                     double most = 0.9) {
  REQUIRE(outcomes.size() > 30);
  std::vector<double> widths;
  for (const Outcome& outcome : outcomes) widths.push_back(outcome.width);
  std::ranges::sort(widths);
  const double median = widths.at(widths.size() / 2);
  const double inside = static_cast<double>(std::ranges::count(outcomes, true, &Outcome::inside)) /
                        static_cast<double>(outcomes.size());
  INFO(outcomes.size() << " runs, inside " << inside << ", median width " << median);
  CHECK(inside >= least);
  CHECK(inside <= most);
  CHECK(median <= widest);
}

}  // namespace

TEST_CASE("intervals of profiles scaled from another GPU hold four of five recorded runs") {
  std::vector<Outcome> outcomes;
  for (const RecordedRun& run : runs_with_sheets()) {
    const auto profile = scaled_profile(run, run.platform);
    if (profile) outcomes.push_back(outcome_of(run, run.platform, *profile));
  }
  check_intervals(outcomes, 0.15);
  check_spread(outcomes, Lane::Compute, {.kernels = true});
}

TEST_CASE("intervals of data sheets hold four of five recorded runs on one GPU, two and four") {
  std::vector<Outcome> outcomes;
  std::map<int, std::vector<Outcome>> by_gpus;
  for (const RecordedRun& run : runs_with_sheets()) {
    outcomes.push_back(outcome_of(run, sheet_of(run), run.profile));
    by_gpus[run.gpus()].push_back(outcomes.back());
  }
  check_intervals(outcomes, 0.25);
  for (const auto& [gpus, of_gpus] : by_gpus) {
    INFO(gpus << " GPUs");
    check_intervals(of_gpus, 0.27, 0.7, /*most=*/1);
  }
  for (const Lane lane : {Lane::Compute, Lane::Collective, Lane::H2D, Lane::D2H, Lane::CpuAdam}) {
    check_spread(outcomes, lane, {.lanes = true});
  }
}

TEST_CASE("intervals hold four of five recorded runs where profile and machine are borrowed") {
  std::vector<Outcome> outcomes;
  for (const RecordedRun& run : runs_with_sheets()) {
    const Platform sheet = sheet_of(run);
    if (const auto profile = scaled_profile(run, sheet)) {
      outcomes.push_back(outcome_of(run, sheet, *profile));
    }
  }
  check_intervals(outcomes, 0.25, 0.7, /*most=*/0.95);
}

TEST_CASE("hosts launch as differently as the spread of data sheets says") {
  std::map<std::pair<std::string, std::string>, double> pairs;  // by lease and profile
  for (const RecordedRun& run : runs_with_sheets()) {
    const auto launch = run.platform.issue.find(Lane::Compute);
    if (launch == run.platform.issue.end() || run.profile.launch_seconds <= 0) continue;
    pairs[{run.name, run.run.at("profile").get<std::string>()}] =
        std::log(launch->second / run.profile.launch_seconds);
  }
  std::vector<double> rates;
  for (const auto& [names, rate] : pairs) rates.push_back(rate);
  REQUIRE(rates.size() > 60);
  CHECK_THAT(borrowed_launch_spread({.lanes = true}), WithinRel(standard_deviation(rates), 0.05));
}

}  // namespace athanor
