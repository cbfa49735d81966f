// SPDX-License-Identifier: Apache-2.0
// How sure predictions are of rates that nobody measured on the machine at hand.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

namespace athanor {

/// Rates of a prediction that come from elsewhere.
struct BorrowedRates {
  bool kernels = false;  ///< the profile was scaled from another GPU
  bool lanes = false;    ///< the platform was made from data sheets
};

/// Returns what `profile` and `platform` have borrowed, by their provenance.
[[nodiscard]] BorrowedRates borrowed_rates(const Profile& profile,
                                           const Platform& platform) noexcept;

/// Returns the relative standard deviation that a lane's rate in a step has besides its drift,
/// because it is borrowed; 0 where it is not. Each is the standard deviation of the logarithms of
/// borrowed over calibrated rates, over recorded runs (README.md of this room has the table), and
/// the tests compute it again. Both parts of kernels add up as squares. Files have none: no record
/// is of a machine whose drives are on its sheet.
[[nodiscard]] double borrowed_spread(Lane lane, const BorrowedRates& borrowed) noexcept;
/// That of launches by the host, which data sheets do not know: a profile's are those of the host
/// on which it was made.
[[nodiscard]] double borrowed_launch_spread(const BorrowedRates& borrowed) noexcept;

/// Whether the spread of scaled kernels holds between two GPUs, whose matrix rates have this ratio.
/// It was measured between H100 and H200, which have the same multiprocessors. Elsewhere the times
/// under the two extremes of scaling are taken to bound a tenth on each side: an assumption.
[[nodiscard]] bool roofline_is_held(double products_ratio) noexcept;

}  // namespace athanor
