// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds/polytope_vertices.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

namespace athanor {
namespace {

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

/// The point in which three planes meet; none where two are parallel.
std::optional<Vector> meet(const HalfSpace& a, const HalfSpace& b, const HalfSpace& c) {
  constexpr double kParallel = 1e-12;
  const Vector bc = cross(b.normal, c.normal);
  const Vector ca = cross(c.normal, a.normal);
  const Vector ab = cross(a.normal, b.normal);
  const double volume = dot(a.normal, bc);
  if (std::abs(volume) < kParallel) return std::nullopt;
  Vector point;
  for (std::size_t i = 0; i < kDimensions; ++i) {
    point[i] = (a.bound * bc[i] + b.bound * ca[i] + c.bound * ab[i]) / volume;
  }
  return point;
}

bool is_within(const Vector& point, const std::vector<HalfSpace>& constraints) {
  constexpr double kRounding = 1e-12;
  return std::ranges::all_of(constraints, [&](const HalfSpace& half) {
    return dot(half.normal, point) <= half.bound + kRounding;
  });
}

}  // namespace

std::vector<Vector> vertices(const std::vector<HalfSpace>& constraints) {
  std::vector<Vector> corners;
  for (std::size_t a = 0; a < constraints.size(); ++a) {
    for (std::size_t b = a + 1; b < constraints.size(); ++b) {
      for (std::size_t c = b + 1; c < constraints.size(); ++c) {
        const std::optional<Vector> corner = meet(constraints[a], constraints[b], constraints[c]);
        if (corner && is_within(*corner, constraints)) corners.push_back(*corner);
      }
    }
  }
  return corners;
}

}  // namespace athanor
