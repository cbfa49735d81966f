// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/fluid_limits.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>

namespace athanor {
namespace {

constexpr std::size_t kDimensions = 3;
using Vector = std::array<double, kDimensions>;
using Lanes = std::array<Lane, kDimensions>;

/// normal * x <= bound
struct HalfSpace {
  Vector normal{};
  double bound = 0;
};

double dot(const Vector& a, const Vector& b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

Vector cross(const Vector& a, const Vector& b) {
  return {a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]};
}

/// Where the three planes meet in one point.
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

/// Whether any lane is slower, or faster, for `lane` running beside it.
bool takes_part(const Interference& interference, Lane lane) {
  for (LaneSet running = 1; running < kNumLaneSets; ++running) {
    if ((running & lane_bit(lane)) == 0) continue;
    for (const Lane other : kLanes) {
      const LaneSet before = lane == other ? lane_bit(lane) : running & ~lane_bit(lane);
      if ((before & lane_bit(other)) == 0) continue;
      if (interference.slowdown(other, running) != interference.slowdown(other, before)) {
        return true;
      }
    }
  }
  return false;
}

/// The best rate of `lane` while exactly `running` of `lanes` run, whatever the other lanes do.
double best_rate(const Interference& interference, LaneSet lanes, LaneSet running, Lane lane) {
  double rate = 0;
  for (LaneSet set = 0; set < kNumLaneSets; ++set) {
    if ((set & lanes) == running) rate = std::max(rate, 1 / interference.slowdown(lane, set));
  }
  return rate;
}

/// One half-space for each set of running lanes, and one for each axis.
std::vector<HalfSpace> constraints(const Interference& interference, const Lanes& lanes) {
  std::vector<HalfSpace> result;
  const LaneSet all = lane_bit(lanes[0]) | lane_bit(lanes[1]) | lane_bit(lanes[2]);
  for (LaneSet running = 1; running < kNumLaneSets; ++running) {
    if ((running & all) != running) continue;
    HalfSpace half{{}, 1};
    for (std::size_t i = 0; i < kDimensions; ++i) {
      if ((running & lane_bit(lanes[i])) == 0) continue;
      half.normal[i] = best_rate(interference, all, running, lanes[i]);
    }
    result.push_back(half);
  }
  for (std::size_t i = 0; i < kDimensions; ++i) {
    HalfSpace axis;
    axis.normal[i] = -1;
    result.push_back(axis);
  }
  return result;
}

bool is_within(const Vector& point, const std::vector<HalfSpace>& constraints) {
  constexpr double kRounding = 1e-12;
  return std::all_of(constraints.begin(), constraints.end(), [&](const HalfSpace& half) {
    return dot(half.normal, point) <= half.bound + kRounding;
  });
}

/// No product with `weights` exceeds that with another of `limits`.
bool is_dominated(const LaneSeconds& weights, const std::vector<LaneSeconds>& limits) {
  return std::any_of(limits.begin(), limits.end(), [&](const LaneSeconds& other) {
    return std::equal(weights.begin(), weights.end(), other.begin(), std::less_equal<>());
  });
}

void add_vertices(const Interference& interference, const Lanes& lanes,
                  std::vector<LaneSeconds>& limits) {
  constexpr double kSafe = 1 - 1e-9;  // never above the optimum by rounding
  const std::vector<HalfSpace> planes = constraints(interference, lanes);
  for (std::size_t a = 0; a < planes.size(); ++a) {
    for (std::size_t b = a + 1; b < planes.size(); ++b) {
      for (std::size_t c = b + 1; c < planes.size(); ++c) {
        const std::optional<Vector> vertex = meet(planes[a], planes[b], planes[c]);
        if (!vertex || !is_within(*vertex, planes)) continue;
        LaneSeconds weights{};
        for (std::size_t i = 0; i < kDimensions; ++i) {
          weights[static_cast<std::size_t>(lanes[i])] = kSafe * std::max(0.0, (*vertex)[i]);
        }
        if (is_dominated(weights, limits)) continue;
        std::erase_if(limits,
                      [&](const LaneSeconds& other) { return is_dominated(other, {weights}); });
        limits.push_back(weights);
      }
    }
  }
}

}  // namespace

std::vector<LaneSeconds> fluid_limits(const Interference& interference) {
  std::vector<LaneSeconds> limits;
  if (interference.none()) return limits;
  std::vector<Lane> lanes;  // of files where they were measured beside others
  std::ranges::copy_if(kLanes, std::back_inserter(lanes), [&](Lane lane) {
    return !is_nvme_lane(lane) || takes_part(interference, lane);
  });
  for (std::size_t a = 0; a < lanes.size(); ++a) {
    for (std::size_t b = a + 1; b < lanes.size(); ++b) {
      for (std::size_t c = b + 1; c < lanes.size(); ++c) {
        add_vertices(interference, {lanes[a], lanes[b], lanes[c]}, limits);
      }
    }
  }
  return limits;
}

}  // namespace athanor
