// SPDX-License-Identifier: Apache-2.0
// The machine as a run has found it: the calibration with the run's own rates, for plans of which
// nothing has been measured yet.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"
#include "sim/rates/rates.hpp"

namespace athanor {

struct RatedMachine {
  Platform platform;
  Profile profile;
};

/// Returns platform and profile with every curve and phase scaled by the factor of the operations
/// that it is the cost of. Where several kinds share a curve, the factor is the mean of their
/// logarithms, weighted by time. `program` is that of the plan whose run had these rates.
///
/// A factor holds up to sixteen times the largest size that was measured: larger operations take as
/// much longer as those do.
///
/// A part that the program does not use was not measured, and takes the factor of what is most like
/// it:
/// - speculative updates, those in place and sums of squares on the host: each other's, because the
///   host's memory bounds all three;
/// - a phase: the mean of the class's other phases, or else of all.
/// Everything else stays as it was calibrated. The losses, norms and fences say nothing of a rate:
/// they are small, and ranks wait for each other there.
[[nodiscard]] RatedMachine rated_machine(const Platform& platform, const Profile& profile,
                                         const Program& program, const RateFactors& factors);

}  // namespace athanor
