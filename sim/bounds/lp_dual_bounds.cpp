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

/// No product with `weights` exceeds that with another of `limits`.
bool is_dominated(const LaneValues& weights, const std::vector<LaneValues>& limits) {
  return std::any_of(limits.begin(), limits.end(), [&](const LaneValues& other) {
    return std::equal(weights.begin(), weights.end(), other.begin(), std::less_equal<>());
  });
}

/// Whether any lane is slower, or faster, for `lane` running beside it.
bool takes_part(const ContentionModel& contention, Lane lane) {
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

/// The best rate of `lane` while exactly `running` of `lanes` run, whatever the other lanes do.
double best_rate(const ContentionModel& contention, LaneSet lanes, LaneSet running, Lane lane) {
  double rate = 0;
  for (LaneSet set = 0; set < kNumLaneSets; ++set) {
    if ((set & lanes) == running) rate = std::max(rate, 1 / contention.slowdown(lane, set));
  }
  return rate;
}

/// What a device draws in its states, above idle, and what that costs at one price.
class Energy {
 public:
  Energy(const std::optional<PowerModel>& power, double share) : share_(share) {
    if (!power) return;
    sustained_ = sustained_watts(*power);
    for (const auto& [lane, watts] : power->lane_watts) lane_watts_[lane_index(lane)] = watts;
    if (share <= 0) return;  // what is free is never saved
    products_ = {1, std::max(0.0, power->matmul_watts - power->idle_watts), power->exponent};
    for (const PowerLimit& limit : power->limits) {
      limits_.push_back(limit.watts - power->idle_watts);
    }
  }

  /// Of a second.
  [[nodiscard]] double cost(double watts) const {
    return share_ > 0 ? 1 - share_ + share_ * watts / sustained_ : 1;
  }
  [[nodiscard]] double cost_per_watt() const { return share_ > 0 ? share_ / sustained_ : 0; }
  [[nodiscard]] double sustained() const { return sustained_; }
  [[nodiscard]] double memory_bound_watts() const { return lane_watts_[lane_index(Lane::Compute)]; }
  [[nodiscard]] const PowerDraw& products() const { return products_; }
  [[nodiscard]] const std::vector<double>& limits() const { return limits_; }

  /// Of all of `running` but the compute lane.
  [[nodiscard]] double watts_beside(LaneSet running) const {
    double watts = 0;
    for (const Lane lane : kLanes) {
      if (lane != Lane::Compute && (running & lane_bit(lane)) != 0)
        watts += lane_watts_[lane_index(lane)];
    }
    return watts;
  }

 private:
  double share_;
  double sustained_ = 0;
  std::array<double, kNumLanes> lane_watts_{};
  PowerDraw products_;
  std::vector<double> limits_;
};

/// The limits at one price.
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

  void append_to(std::vector<DualBound>& limits, std::size_t multiplier) const {
    for (const LaneValues& weights : weights_) {
      DualBound limit = with_kernels(weights);
      limit.multiplier = multiplier;
      if (limit.weights[lane_index(Lane::Compute)] >= 0) limits.push_back(limit);
    }
  }

 private:
  /// One for each state that differs in what `lanes` do, and one for each axis.
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
    const PowerDraw& products = energy_.products();
    const bool computes = (running & lane_bit(Lane::Compute)) != 0;
    const double watts = energy_.watts_beside(running) + (computes ? products.watts : 0);
    const bool is_slowed = computes && products.watts > energy_.sustained();
    result.push_back(
        {rates, energy_.cost(is_slowed ? watts : std::min(watts, energy_.sustained()))});
    if (!is_slowed) return;
    for (const double limit : energy_.limits()) {
      if (limit >= products.watts) continue;
      Vector slowed = rates;
      for (std::size_t i = 0; i < kDimensions; ++i) {
        if (lanes[i] == Lane::Compute) slowed[i] *= products.speed_at(limit);
      }
      result.push_back({slowed, energy_.cost(limit)});
    }
  }

  /// A kernel is worth what the work of lanes beside it leaves of the time and energy it takes.
  [[nodiscard]] DualBound with_kernels(const LaneValues& weights) const {
    DualBound limit;
    limit.weights = weights;
    for (const double watts : energy_.limits()) {
      limit.slowed.push_back({watts, std::numeric_limits<double>::infinity()});
    }
    for (LaneSet running = 1; running < kNumLaneSets; ++running) {
      if ((running & lane_bit(Lane::Compute)) != 0) add_kernels(running, limit);
    }
    limit.weights[lane_index(Lane::Compute)] = limit.weight({1, energy_.memory_bound_watts(), 0});
    for (const Lane lane : kLanes) {
      if (lane != Lane::Compute) limit.idle_weights[lane_index(lane)] = idle_weight(lane, weights);
    }
    return limit;
  }

  [[nodiscard]] double idle_weight(Lane lane, const LaneValues& weights) const {
    double least = std::numeric_limits<double>::infinity();
    for (LaneSet running = 1; running < kNumLaneSets; ++running) {
      if ((running & lane_bit(lane)) == 0) continue;
      double left = energy_.cost(std::min(energy_.watts_beside(running), energy_.sustained()));
      for (const Lane other : kLanes) {
        if (other == lane || other == Lane::Compute || (running & lane_bit(other)) == 0) continue;
        left -= weights[lane_index(other)] / contention_.slowdown(other, running);
      }
      least = std::min(least, contention_.slowdown(lane, running) * left);
    }
    return std::max(weights[lane_index(lane)], kSafe * least);
  }

  void add_kernels(LaneSet running, DualBound& limit) const {
    double beside = 0;
    for (const Lane lane : kLanes) {
      if (lane == Lane::Compute || (running & lane_bit(lane)) == 0) continue;
      beside += limit.weights[lane_index(lane)] / contention_.slowdown(lane, running);
    }
    const double slowdown = contention_.slowdown(Lane::Compute, running);
    const double lanes_cost = energy_.cost(energy_.watts_beside(running));
    add_full_clock({slowdown * (lanes_cost - beside), slowdown * energy_.cost_per_watt()}, limit);
    for (DualBound::Slowed& slowed : limit.slowed) {
      slowed.weight = std::min(slowed.weight, slowdown * (energy_.cost(slowed.watts) - beside));
    }
  }

  /// Keeps those that are the least for some kernel.
  static void add_full_clock(const DualBound::AtFullClock& added, DualBound& limit) {
    const auto is_above = [](const auto& a, const auto& b) {
      return a.weight >= b.weight && a.per_watt >= b.per_watt;
    };
    auto& all = limit.at_full_clock;
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
  for (const AtFullClock& beside : at_full_clock) {
    least = std::min(least, beside.weight + beside.per_watt * kernel.watts);
  }
  for (const Slowed& beside : slowed) {
    least = std::min(least, beside.weight / kernel.speed_at(beside.watts));
  }
  return least > 0 ? kSafe * least : least;
}

std::vector<DualBound> lp_dual_bounds(const ContentionModel& contention,
                                      const std::optional<PowerModel>& power) {
  std::vector<DualBound> limits;
  if (contention.none() && !power) return limits;
  std::vector<Lane> lanes;  // of files where they were measured beside others
  std::ranges::copy_if(kLanes, std::back_inserter(lanes), [&](Lane lane) {
    return !is_nvme_lane(lane) || takes_part(contention, lane);
  });
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    const double share = kEnergyMultipliers[multiplier];
    if (share > 0 && !power) break;
    const Energy energy(power, share);
    DualBoundSolver at_price(contention, energy);
    for (std::size_t a = 0; a < lanes.size(); ++a) {
      if (share > 0 && lanes[a] != Lane::Compute) continue;
      for (std::size_t b = a + 1; b < lanes.size(); ++b) {
        for (std::size_t c = b + 1; c < lanes.size(); ++c)
          at_price.add({lanes[a], lanes[b], lanes[c]});
      }
    }
    at_price.append_to(limits, multiplier);
  }
  return limits;
}

}  // namespace athanor
