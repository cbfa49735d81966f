// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds/lp_dual_bounds.hpp"

#include "sim/bounds/polytope_vertices.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <iterator>
#include <limits>

namespace athanor {
namespace {

using Lanes = std::array<Lane, kDimensions>;

constexpr double kSafe = 1 - 1e-9;  // never above the optimum by rounding

/// Whether one of `others` gives no smaller a sum than `weights`, for any work.
bool is_dominated(const LaneValues& weights, const std::vector<LaneValues>& others) {
  return std::any_of(others.begin(), others.end(), [&](const LaneValues& other) {
    return std::equal(weights.begin(), weights.end(), other.begin(), std::less_equal<>());
  });
}

/// Whether any lane is slower, or faster, while `lane` runs.
bool contends(const ContentionModel& contention, Lane lane) {
  for (LaneSet running = 1; running < kNumLaneSets; ++running) {
    if ((running & lane_bit(lane)) == 0) continue;
    for (const Lane other : kLanes) {
      const LaneSet before = lane == other ? lane_bit(lane) : running & ~lane_bit(lane);
      if ((before & lane_bit(other)) == 0) continue;
      if (contention.slowdown(other, running) != contention.slowdown(other, before)) {
        return true;
      }
    }
  }
  return false;
}

/// Best rate of `lane` while exactly `running` of `lanes` run, over all sets of the other lanes.
double best_rate(const ContentionModel& contention, LaneSet lanes, LaneSet running, Lane lane) {
  double rate = 0;
  for (LaneSet set = 0; set < kNumLaneSets; ++set) {
    if ((set & lanes) == running) rate = std::max(rate, 1 / contention.slowdown(lane, set));
  }
  return rate;
}

/// Power draw of a device's states, above idle, and its cost with one multiplier.
class Energy {
 public:
  Energy(const std::optional<PowerModel>& power, double multiplier) : multiplier_(multiplier) {
    if (!power) return;
    sustained_ = sustained_watts(*power);
    for (const auto& [lane, watts] : power->lane_watts) lane_watts_[lane_index(lane)] = watts;
    if (multiplier <= 0) return;  // free energy is never saved
    matmul_ = {1, std::max(0.0, power->matmul_watts - power->idle_watts), power->exponent};
    for (const PowerLimit& limit : power->limits) {
      limits_.push_back(limit.watts - power->idle_watts);
    }
  }

  /// Cost of a second at `watts`.
  [[nodiscard]] double cost(double watts) const {
    return multiplier_ > 0 ? 1 - multiplier_ + multiplier_ * watts / sustained_ : 1;
  }
  [[nodiscard]] double cost_per_watt() const {
    return multiplier_ > 0 ? multiplier_ / sustained_ : 0;
  }
  [[nodiscard]] double sustained() const { return sustained_; }
  [[nodiscard]] double memory_bound_watts() const { return lane_watts_[lane_index(Lane::Compute)]; }
  [[nodiscard]] const PowerDraw& matmul() const { return matmul_; }
  [[nodiscard]] const std::vector<double>& limits() const { return limits_; }

  /// Power draw of all of `running` but the compute lane.
  [[nodiscard]] double other_watts(LaneSet running) const {
    double watts = 0;
    for (const Lane lane : kLanes) {
      if (lane != Lane::Compute && (running & lane_bit(lane)) != 0)
        watts += lane_watts_[lane_index(lane)];
    }
    return watts;
  }

 private:
  double multiplier_;
  double sustained_ = 0;
  std::array<double, kNumLanes> lane_watts_{};
  PowerDraw matmul_;
  std::vector<double> limits_;
};

/// Dual bounds with one multiplier.
class DualBoundSolver {
 public:
  DualBoundSolver(const ContentionModel& contention, const Energy& energy)
      : contention_(contention), energy_(energy) {}

  void add(const Lanes& lanes) {
    for (const Vector& corner : vertices(constraints(lanes))) {
      LaneValues weights{};
      for (std::size_t i = 0; i < kDimensions; ++i) {
        weights[lane_index(lanes[i])] = kSafe * std::max(0.0, corner[i]);
      }
      if (is_dominated(weights, weights_)) continue;
      std::erase_if(weights_,
                    [&](const LaneValues& other) { return is_dominated(other, {weights}); });
      weights_.push_back(weights);
    }
  }

  void append_to(std::vector<DualBound>& bounds, std::size_t multiplier) const {
    for (const LaneValues& weights : weights_) {
      DualBound bound = with_kernels(weights);
      bound.multiplier = multiplier;
      if (bound.weights[lane_index(Lane::Compute)] >= 0) bounds.push_back(bound);
    }
  }

 private:
  /// Half-spaces of the states that differ in what `lanes` do, and of the axes.
  [[nodiscard]] std::vector<HalfSpace> constraints(const Lanes& lanes) const {
    std::vector<HalfSpace> result;
    const LaneSet all = lane_bit(lanes[0]) | lane_bit(lanes[1]) | lane_bit(lanes[2]);
    for (LaneSet running = 1; running < kNumLaneSets; ++running) {
      if ((running & all) != running) continue;
      Vector rates{};
      for (std::size_t i = 0; i < kDimensions; ++i) {
        if ((running & lane_bit(lanes[i])) == 0) continue;
        rates[i] = best_rate(contention_, all, running, lanes[i]);
      }
      add_states(lanes, running, rates, result);
    }
    for (std::size_t i = 0; i < kDimensions; ++i) {
      HalfSpace axis;
      axis.normal[i] = -1;
      result.push_back(axis);
    }
    return result;
  }

  void add_states(const Lanes& lanes, LaneSet running, const Vector& rates,
                  std::vector<HalfSpace>& result) const {
    const PowerDraw& matmul = energy_.matmul();
    const bool computes = (running & lane_bit(Lane::Compute)) != 0;
    const double watts = energy_.other_watts(running) + (computes ? matmul.watts : 0);
    const bool is_throttled = computes && matmul.watts > energy_.sustained();
    result.push_back(
        {rates, energy_.cost(is_throttled ? watts : std::min(watts, energy_.sustained()))});
    if (!is_throttled) return;
    for (const double limit : energy_.limits()) {
      if (limit >= matmul.watts) continue;
      Vector slowed = rates;
      for (std::size_t i = 0; i < kDimensions; ++i) {
        if (lanes[i] == Lane::Compute) slowed[i] *= matmul.speed_at(limit);
      }
      result.push_back({slowed, energy_.cost(limit)});
    }
  }

  /// Completes a bound: a kernel's weight is the time and energy that the other lanes leave.
  [[nodiscard]] DualBound with_kernels(const LaneValues& weights) const {
    DualBound bound;
    bound.weights = weights;
    for (const double watts : energy_.limits()) {
      bound.throttled.push_back({watts, std::numeric_limits<double>::infinity()});
    }
    for (LaneSet running = 1; running < kNumLaneSets; ++running) {
      if ((running & lane_bit(Lane::Compute)) != 0) add_kernels(running, bound);
    }
    bound.weights[lane_index(Lane::Compute)] = bound.weight({1, energy_.memory_bound_watts(), 0});
    for (const Lane lane : kLanes) {
      if (lane != Lane::Compute) bound.idle_weights[lane_index(lane)] = idle_weight(lane, weights);
    }
    return bound;
  }

  [[nodiscard]] double idle_weight(Lane lane, const LaneValues& weights) const {
    double least = std::numeric_limits<double>::infinity();
    for (LaneSet running = 1; running < kNumLaneSets; ++running) {
      if ((running & lane_bit(lane)) == 0) continue;
      double left = energy_.cost(std::min(energy_.other_watts(running), energy_.sustained()));
      for (const Lane other : kLanes) {
        if (other == lane || other == Lane::Compute || (running & lane_bit(other)) == 0) continue;
        left -= weights[lane_index(other)] / contention_.slowdown(other, running);
      }
      least = std::min(least, contention_.slowdown(lane, running) * left);
    }
    return std::max(weights[lane_index(lane)], kSafe * least);
  }

  void add_kernels(LaneSet running, DualBound& bound) const {
    double others = 0;
    for (const Lane lane : kLanes) {
      if (lane == Lane::Compute || (running & lane_bit(lane)) == 0) continue;
      others += bound.weights[lane_index(lane)] / contention_.slowdown(lane, running);
    }
    const double slowdown = contention_.slowdown(Lane::Compute, running);
    const double lanes_cost = energy_.cost(energy_.other_watts(running));
    add_unthrottled({slowdown * (lanes_cost - others), slowdown * energy_.cost_per_watt()}, bound);
    for (DualBound::Throttled& throttled : bound.throttled) {
      throttled.weight =
          std::min(throttled.weight, slowdown * (energy_.cost(throttled.watts) - others));
    }
  }

  /// Keeps the entries that are the least for some kernel.
  static void add_unthrottled(const DualBound::Unthrottled& added, DualBound& bound) {
    const auto is_above = [](const auto& a, const auto& b) {
      return a.weight >= b.weight && a.per_watt >= b.per_watt;
    };
    auto& all = bound.unthrottled;
    if (std::ranges::any_of(all, [&](const auto& other) { return is_above(added, other); })) return;
    std::erase_if(all, [&](const auto& other) { return is_above(other, added); });
    all.push_back(added);
  }

  const ContentionModel& contention_;
  const Energy& energy_;
  std::vector<LaneValues> weights_;
};

}  // namespace

double DualBound::weight(const PowerDraw& kernel) const noexcept {
  double least = std::numeric_limits<double>::infinity();
  for (const Unthrottled& state : unthrottled) {
    least = std::min(least, state.weight + state.per_watt * kernel.watts);
  }
  for (const Throttled& state : throttled) {
    least = std::min(least, state.weight / kernel.speed_at(state.watts));
  }
  return least > 0 ? kSafe * least : least;
}

std::vector<DualBound> lp_dual_bounds(const ContentionModel& contention,
                                      const std::optional<PowerModel>& power) {
  std::vector<DualBound> bounds;
  if (contention.none() && !power) return bounds;
  std::vector<Lane> lanes;  // file lanes only where they contend
  std::ranges::copy_if(kLanes, std::back_inserter(lanes), [&](Lane lane) {
    return !is_nvme_lane(lane) || contends(contention, lane);
  });
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    const bool has_energy = kEnergyMultipliers[multiplier] > 0;
    if (has_energy && !power) break;
    const Energy energy(power, kEnergyMultipliers[multiplier]);
    DualBoundSolver solver(contention, energy);
    for (std::size_t a = 0; a < lanes.size(); ++a) {
      if (has_energy && lanes[a] != Lane::Compute) continue;
      for (std::size_t b = a + 1; b < lanes.size(); ++b) {
        for (std::size_t c = b + 1; c < lanes.size(); ++c)
          solver.add({lanes[a], lanes[b], lanes[c]});
      }
    }
    solver.append_to(bounds, multiplier);
  }
  return bounds;
}

}  // namespace athanor
