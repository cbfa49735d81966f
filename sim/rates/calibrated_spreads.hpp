// SPDX-License-Identifier: Apache-2.0
// How sure a calibration is of the rates of a run.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/rates/rates.hpp"

#include <map>

namespace athanor {

/// Interquartile range of a normal distribution in standard deviations.
inline constexpr double kQuartiles = 1.349;

/// Returns the relative standard deviation of one repetition of a rate's operations in the
/// calibration, where platform and profile record a spread; 0 where they record none, as those of
/// data sheets. Spreads are interquartile ranges. A normal distribution's is 1.349 of its standard
/// deviations. `program` is that of the plan.
[[nodiscard]] std::map<RateKey, double> repetition_spreads(const Program& program,
                                                           const Profile& profile, const Plan& plan,
                                                           const Platform& platform);

/// Returns the relative standard deviation with which a lane's rate in a run lies around its
/// calibration: hosts are shared, and clocks and disks change from hour to hour. No file records
/// it, because one calibration cannot see it. These are the deviations over the recorded runs
/// (traces/records): CPU Adam 9.7 %, files 19 %, everything else 3.9 %.
[[nodiscard]] double drift_of(Lane lane) noexcept;
/// Returns the same of runs on `platform`: the spread of the pooled rate, where there is one.
[[nodiscard]] double drift_of(Lane lane, const Platform& platform) noexcept;
/// That of launches by the host, 8.5 %.
inline constexpr double kLaunchDrift = 0.085;

}  // namespace athanor
