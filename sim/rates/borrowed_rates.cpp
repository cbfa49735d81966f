// SPDX-License-Identifier: Apache-2.0
#include "sim/rates/borrowed_rates.hpp"

#include <cmath>

namespace athanor {
namespace {

constexpr double kScaledKernels = 0.028, kSheetLaunches = 0.32;

/// Rates of data sheets in a step, beside the other lanes.
double sheet_spread(Lane lane) noexcept {
  switch (lane) {
    case Lane::Compute:
      return 0.029;
    case Lane::Collective:
      return 0.53;
    case Lane::H2D:
      return 0.145;
    case Lane::D2H:
      return 0.21;
    case Lane::CpuAdam:
      return 0.18;
    case Lane::NvmeRead:
    case Lane::NvmeWrite:
      return 0;
  }
  return 0;
}

}  // namespace

BorrowedRates borrowed_rates(const Profile& profile, const Platform& platform) noexcept {
  return {.kernels = profile.provenance.source == Source::Scaled,
          .lanes = platform.provenance.source == Source::DataSheet};
}

double borrowed_spread(Lane lane, const BorrowedRates& borrowed) noexcept {
  const double scaled = borrowed.kernels && lane == Lane::Compute ? kScaledKernels : 0;
  return std::hypot(scaled, borrowed.lanes ? sheet_spread(lane) : 0);
}

double borrowed_launch_spread(const BorrowedRates& borrowed) noexcept {
  return borrowed.lanes ? kSheetLaunches : 0;
}

bool roofline_is_held(double products_ratio) noexcept {
  constexpr double kAlike = 0.1;  // GPUs of one kind differ by up to 5 % in the records
  return std::abs(std::log(products_ratio)) < kAlike;
}

}  // namespace athanor
