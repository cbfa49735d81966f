// SPDX-License-Identifier: Apache-2.0
#include "cli/sim/scaled_profile.hpp"

#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/rates/borrowed_rates.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace athanor::cli {

std::optional<Platform> read_profile_platform(const std::string& path, const Profile& profile) {
  if (path.empty()) return std::nullopt;
  Platform platform = read_platform(path);
  if (platform.device != profile.device) {
    throw InputError("--profile-platform",
                     fmt::format("{} has {}, but the profile was made on {}", platform.name,
                                 platform.device, profile.device),
                     "Give the machine that the profile was measured on.");
  }
  return platform;
}

ScaledProfile profile_for(const Profile& profile, const std::optional<Platform>& measured_on,
                          const Platform& platform) {
  ScaledProfile result{.profile = profile, .extremes = {}, .measured_on = profile.device};
  if (!measured_on || profile.device == platform.device) return result;
  result.profile = scale_profile(profile, *measured_on, platform);
  result.ratios = scaling_ratios(profile, *measured_on, platform);
  for (const ScalingRule rule : {ScalingRule::Products, ScalingRule::Memory}) {
    result.extremes.push_back(scale_profile(profile, *measured_on, platform, rule));
  }
  return result;
}

Report make_report(const Plan& plan, const ScaledProfile& scaled, const TuningProblem& problem,
                   Engine& engine, const ReportOptions& options) {
  Report report = make_report(plan, problem, engine, options);
  if (scaled.extremes.empty()) return report;
  ScalingRange range{report.step_seconds, report.step_seconds, scaled.measured_on};
  for (const Profile& extreme : scaled.extremes) {
    const Timeline timeline = engine.simulate(lower(extreme, plan), {.record_intervals = false});
    range.low = std::min(range.low, timeline.step_seconds);
    range.high = std::max(range.high, timeline.step_seconds);
  }
  if (!roofline_is_held(scaled.ratios.products)) {
    report.deviations.push_back(deviation_between(range.low, report.step_seconds, range.high));
  }
  report.scaling = range;
  return report;
}

LoadedProblem::LoadedProblem(const Inputs& inputs)
    : LoadedProblem(inputs, read_profile(inputs.profile_path)) {}

LoadedProblem::LoadedProblem(const Inputs& inputs, const Profile& measured)
    : LoadedProblem(measured, read_profile_platform(inputs.profile_platform_path, measured),
                    read_platform(inputs.platform_path), inputs.request()) {}

LoadedProblem::LoadedProblem(const Profile& measured, const std::optional<Platform>& measured_on,
                             Platform platform, const PlanRequest& request)
    : platform_(std::move(platform)),
      scaled_(profile_for(measured, measured_on, platform_)),
      problem_(tuning_problem(scaled_.profile, platform_, request)) {
  warn_about(scaled_.profile, platform_, request.limits);
}

}  // namespace athanor::cli
