// SPDX-License-Identifier: Apache-2.0
// The problem that the options of simulate and tune name, with a profile that --profile-platform
// may scale from one GPU to another.
#pragma once

#include "cli/sim/inputs.hpp"
#include "cli/sim/report.hpp"
#include "sim/cost/scaling.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/policy/tuning_problem.hpp"

#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

struct ScaledProfile {
  Profile profile;                ///< profile for the platform at hand
  std::vector<Profile> extremes;  ///< empty: not scaled; else all phases scaled by one ratio alone
  std::string measured_on;        ///< device of the profile as it was read
  ScalingRatios ratios = {};      // NOLINT(readability-redundant-member-init)
};

/// Returns the platform that --profile-platform names, or nothing for an empty path. Throws
/// InputError if `profile` was not made on its device.
[[nodiscard]] std::optional<Platform> read_profile_platform(const std::string& path,
                                                            const Profile& profile);

/// Scales `profile` from `measured_on` to `platform`, if the former is given and the devices
/// differ.
[[nodiscard]] ScaledProfile profile_for(const Profile& profile,
                                        const std::optional<Platform>& measured_on,
                                        const Platform& platform);

/// Makes a report on the scaled profile. If it was scaled, the plan's step times under the two
/// extremes are its range. Where no record holds the scaling (roofline_is_held()), the range widens
/// the interval.
[[nodiscard]] Report make_report(const Plan& plan, const ScaledProfile& scaled,
                                 const TuningProblem& problem, Engine& engine,
                                 const ReportOptions& options = {});

/// Problem together with the files that it refers to.
class LoadedProblem {
 public:
  /// Reads profile and platform, and warns about inputs that are likely to surprise. Throws
  /// InputError if a file or the request is not valid.
  explicit LoadedProblem(const Inputs& inputs);
  /// Scales `measured` from `measured_on` to `platform`, if the former is given.
  LoadedProblem(const Profile& measured, const std::optional<Platform>& measured_on,
                Platform platform, const PlanRequest& request);
  LoadedProblem(const LoadedProblem&) = delete;
  LoadedProblem& operator=(const LoadedProblem&) = delete;

  [[nodiscard]] const ScaledProfile& scaled() const noexcept { return scaled_; }
  [[nodiscard]] const TuningProblem& problem() const noexcept { return problem_; }

 private:
  LoadedProblem(const Inputs& inputs, const Profile& measured);

  Platform platform_;
  ScaledProfile scaled_;
  TuningProblem problem_;  ///< refers to the profile and the platform above
};

}  // namespace athanor::cli
