// SPDX-License-Identifier: Apache-2.0
// Vertices of polytopes in three dimensions.
#pragma once

#include <array>
#include <cstddef>
#include <vector>

namespace athanor {

inline constexpr std::size_t kDimensions = 3;
using Vector = std::array<double, kDimensions>;

/// The points x with normal * x <= bound.
struct HalfSpace {
  Vector normal{};
  double bound = 0;
};

/// Vertices of the intersection of all `constraints`: points where the planes of three meet.
[[nodiscard]] std::vector<Vector> vertices(const std::vector<HalfSpace>& constraints);

}  // namespace athanor
