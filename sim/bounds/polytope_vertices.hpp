// SPDX-License-Identifier: Apache-2.0
// Corners of regions that planes bound, in three dimensions.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace athanor {

inline constexpr std::size_t kDimensions = 3;
using Vector = std::array<double, kDimensions>;

/// normal * x <= bound
struct HalfSpace {
  Vector normal{};
  double bound = 0;
};

/// The corners of what lies within all of `constraints`: points where the planes of three meet.
[[nodiscard]] std::vector<Vector> vertices(const std::vector<HalfSpace>& constraints);

}  // namespace athanor
