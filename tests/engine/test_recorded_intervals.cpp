// SPDX-License-Identifier: Apache-2.0
// Intervals of predictions against recorded runs, none of which a constant is fitted to. Their own
// program: a dozen simulations of each run take long.
#include "sim/engine/prediction_interval.hpp"
#include "sim/rates/calibrated_spreads.hpp"
#include "tests/engine/records.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace athanor {
namespace {

using nlohmann::json;

constexpr double kTenth = 1.2815515655446004;  // standard deviations

/// A recorded run's deviation from its prediction, in standard deviations of its interval.
struct Residual {
  std::string lease;
  double deviations = 0;
  double width = 0;  ///< width of the interval over the step
};

std::vector<Residual> recorded_residuals() {
  std::vector<Residual> residuals;
  for (const std::string& name : test::recorded_runs()) {
    const json record = test::read_record(name);
    for (const json& run : record.at("runs")) {
      const Platform platform = test::platform_of(run, record, name);
      const Program program = test::program_of(run, name);
      Engine engine(platform, run.at("gpus").get<int>());
      const Timeline predicted = engine.simulate(program);
      const double step = predicted.step_seconds;
      const PredictionInterval interval =
          interval_of(step, rate_deviations(engine, program, predicted,
                                            repetition_spreads(program, test::profile_of(run, name),
                                                               test::plan_of(run), platform),
                                            platform));
      const double error = std::log(run.at("step_seconds").get<double>() / step);
      const double bound =
          error < 0 ? std::log(step / interval.p10) : std::log(interval.p90 / step);
      residuals.push_back(
          {name, kTenth * std::abs(error) / bound, (interval.p90 - interval.p10) / step});
    }
  }
  return residuals;
}

/// Returns the value that a share of `values` does not exceed.
double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  return values.at(static_cast<std::size_t>(share * static_cast<double>(values.size() - 1)));
}

}  // namespace

TEST_CASE("intervals hold four of five recorded runs, also with each lease left out") {
  const std::vector<Residual> residuals = recorded_residuals();
  REQUIRE(residuals.size() > 300);
  std::size_t inside = 0, inside_left_out = 0;
  std::vector<double> widths;
  std::map<std::string, double> scales;  // by lease: what would hold 80 % of all others
  for (const Residual& of : residuals) {
    if (!scales.contains(of.lease)) {
      std::vector<double> others;
      for (const Residual& other : residuals) {
        if (other.lease != of.lease) others.push_back(other.deviations);
      }
      scales[of.lease] = quantile(others, 0.8);
    }
    inside += of.deviations <= kTenth ? 1 : 0;
    inside_left_out += of.deviations <= scales[of.lease] ? 1 : 0;
    widths.push_back(of.width);
  }
  const auto share = [&](std::size_t count) {
    return static_cast<double>(count) / static_cast<double>(residuals.size());
  };
  INFO("inside " << share(inside) << ", with their lease left out " << share(inside_left_out)
                 << ", median width " << quantile(widths, 0.5));
  CHECK(share(inside) >= 0.75);
  CHECK(share(inside) <= 0.88);
  CHECK(share(inside_left_out) >= 0.75);
  CHECK(share(inside_left_out) <= 0.88);
  CHECK(quantile(widths, 0.5) <= 0.12);
}

}  // namespace athanor
