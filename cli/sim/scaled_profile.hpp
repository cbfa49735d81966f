// SPDX-License-Identifier: Apache-2.0
// --profile-platform: a profile that was measured on one GPU, for a plan on another.
#pragma once

#include "cli/sim/report.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

struct ScaledProfile {
  Profile profile;                ///< for the platform at hand
  std::vector<Profile> extremes;  ///< empty: not scaled; else everything scaled by one ratio alone
  std::string measured_on;        ///< device of the profile as it was read
};

/// The platform that --profile-platform names; nothing for an empty path. Throws InputError when
/// `profile` was not made on its device.
[[nodiscard]] std::optional<Platform> read_profile_platform(const std::string& path,
                                                            const Profile& profile);

/// `profile` scaled from `measured_on` to `platform`, where that is given and the devices differ.
[[nodiscard]] ScaledProfile profile_for(const Profile& profile,
                                        const std::optional<Platform>& measured_on,
                                        const Platform& platform);

/// make_report on the scaled profile. Where it was scaled, the same plan under the two extremes
/// gives the interval.
[[nodiscard]] Report make_report(const Plan& plan, const ScaledProfile& scaled,
                                 const Platform& platform, Engine& engine,
                                 const MemoryLimits& limits, const std::string& trace_path);

}  // namespace athanor::cli
