// SPDX-License-Identifier: Apache-2.0
#include "sim/bounds/lp_dual_bounds.hpp"

#include "sim/bounds/polytope_vertices.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <functional>
#include <limits>

namespace athanor {
namespace {

constexpr double kSafe = 1 - 1e-9;  // never above the optimum by rounding

/// Kinds of work with the same weight: of one lane, all or some.
using Variable = WorkSet;
using Variables = std::array<Variable, kDimensions>;
constexpr Variable kAnyCopies = work_bit(lane_index(Lane::D2H)) | work_bit(kAddingCopies);

bool has(WorkSet set, std::size_t kind) noexcept { return (set & work_bit(kind)) != 0; }

Lane lane_of(Variable variable) {
  return lane_of_work(static_cast<std::size_t>(std::countr_zero(variable)));
}

/// The states of a device: each set of lanes that may run, once.
std::vector<LaneSet> all_states() {
  std::vector<LaneSet> states;
  for (LaneSet running = 1; running < kNumLaneSets; ++running) {
    const bool adds = (running & kD2HAdds) != 0;
    if (!adds || (running & lane_bit(Lane::D2H)) != 0) states.push_back(running);
  }
  return states;
}

/// Whether one of `others` gives no smaller a sum than `weights`, for any work.
bool is_dominated(const WorkValues& weights, const std::vector<WorkValues>& others) {
  return std::any_of(others.begin(), others.end(), [&](const WorkValues& other) {
    return std::equal(weights.begin(), weights.end(), other.begin(), std::less_equal<>());
  });
}

void add_undominated(const WorkValues& weights, std::vector<WorkValues>& all) {
  if (is_dominated(weights, all)) return;
  std::erase_if(all, [&](const WorkValues& other) { return is_dominated(other, {weights}); });
  all.push_back(weights);
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

/// Whether copies that add contend in another way than those that do not.
bool tells_adding(const ContentionModel& contention) {
  const std::vector<LaneSet> states = all_states();
  return std::ranges::any_of(states, [&](LaneSet running) {
    return contention.slowdowns(running) != contention.slowdowns(running & ~kD2HAdds);
  });
}

bool has_variable(unsigned subset, std::size_t i) noexcept { return (subset >> i & 1U) != 0; }

/// Whether of all `variables` exactly those of `subset` run.
bool runs_alone(LaneSet running, const Variables& variables, unsigned subset) {
  for (std::size_t i = 0; i < kDimensions; ++i) {
    if (((work_of(running) & variables[i]) != 0) != has_variable(subset, i)) return false;
  }
  return true;
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

  /// Adds vertices at which all kinds of work but `variables` weigh nothing.
  void add_vertices(const Variables& variables, std::vector<WorkValues>& all) const {
    for (const Vector& corner : vertices(constraints(variables))) {
      WorkValues weights{};
      for (std::size_t kind = 0; kind < kNumWorkKinds; ++kind) {
        for (std::size_t i = 0; i < kDimensions; ++i) {
          if (has(variables[i], kind)) weights[kind] = kSafe * std::max(0.0, corner[i]);
        }
      }
      add_undominated(weights, all);
    }
  }

  /// Returns `weights` with the work of `used` lanes, but kernels', raised as far as all states
  /// allow, one kind after the other: the first or the last first.
  [[nodiscard]] WorkValues raised(WorkValues weights, LaneSet used, bool last_first) const {
    for (std::size_t i = 0; i < kNumWorkKinds; ++i) {
      const std::size_t kind = last_first ? kNumWorkKinds - 1 - i : i;
      const Lane lane = lane_of_work(kind);
      if (lane == Lane::Compute || (used & lane_bit(lane)) == 0) continue;
      weights[kind] = std::max(weights[kind], kSafe * most_weight(kind, weights));
    }
    return weights;
  }

  /// Completes a bound: a kernel's weight is the time and energy that the other lanes leave.
  [[nodiscard]] DualBound with_kernels(const WorkValues& weights) const {
    DualBound bound;
    bound.weights = weights;
    for (const double watts : energy_.limits()) {
      bound.throttled.push_back({watts, std::numeric_limits<double>::infinity()});
    }
    for (const LaneSet running : states_) {
      if ((running & lane_bit(Lane::Compute)) != 0) add_kernels(running, bound);
    }
    bound.weights[lane_index(Lane::Compute)] = bound.weight({1, energy_.memory_bound_watts(), 0});
    for (std::size_t kind = 0; kind < kNumWorkKinds; ++kind) {
      if (lane_of_work(kind) != Lane::Compute) {
        bound.idle_weights[kind] = idle_weight(kind, weights);
      }
    }
    return bound;
  }

 private:
  /// Half-spaces of the states that differ in what `variables` do, and of the axes.
  [[nodiscard]] std::vector<HalfSpace> constraints(const Variables& variables) const {
    std::vector<HalfSpace> result;
    for (unsigned subset = 1; subset < 1U << kDimensions; ++subset) {
      Vector rates{};
      bool occurs = false;
      for (const LaneSet running : states_) {
        if (!runs_alone(running, variables, subset)) continue;
        occurs = true;
        for (std::size_t i = 0; i < kDimensions; ++i) {
          if (!has_variable(subset, i)) continue;
          rates[i] = std::max(rates[i], 1 / contention_.slowdown(lane_of(variables[i]), running));
        }
      }
      if (occurs) add_states(variables, subset, rates, result);
    }
    for (std::size_t i = 0; i < kDimensions; ++i) {
      HalfSpace axis;
      axis.normal[i] = -1;
      result.push_back(axis);
    }
    return result;
  }

  void add_states(const Variables& variables, unsigned subset, const Vector& rates,
                  std::vector<HalfSpace>& result) const {
    LaneSet running = 0;
    for (std::size_t i = 0; i < kDimensions; ++i) {
      if (has_variable(subset, i)) running |= lane_bit(lane_of(variables[i]));
    }
    for (const PowerState& state : power_states(running)) {
      Vector slowed = rates;
      for (std::size_t i = 0; i < kDimensions; ++i) {
        if (lane_of(variables[i]) == Lane::Compute) slowed[i] *= state.speed;
      }
      result.push_back({slowed, state.cost});
    }
  }

  /// Speed of a matrix product in a state, and the cost of a second.
  struct PowerState {
    double speed = 1, cost = 1;
  };
  [[nodiscard]] std::vector<PowerState> power_states(LaneSet running) const {
    const PowerDraw& matmul = energy_.matmul();
    const bool computes = (running & lane_bit(Lane::Compute)) != 0;
    const double watts = energy_.other_watts(running) + (computes ? matmul.watts : 0);
    const bool is_throttled = computes && matmul.watts > energy_.sustained();
    std::vector<PowerState> states{
        {1, energy_.cost(is_throttled ? watts : std::min(watts, energy_.sustained()))}};
    if (!is_throttled) return states;
    for (const double limit : energy_.limits()) {
      if (limit < matmul.watts) states.push_back({matmul.speed_at(limit), energy_.cost(limit)});
    }
    return states;
  }

  /// Cost of a second in a state, less what the work in it weighs but that of `left_out` and of
  /// kernels.
  [[nodiscard]] double left_by_others(LaneSet running, double cost, const WorkValues& weights,
                                      std::size_t left_out = kNumWorkKinds) const {
    for (std::size_t kind = 0; kind < kNumWorkKinds; ++kind) {
      const Lane lane = lane_of_work(kind);
      if (kind == left_out || lane == Lane::Compute || !has(work_of(running), kind)) continue;
      cost -= weights[kind] / contention_.slowdown(lane, running);
    }
    return cost;
  }

  /// The most that a second of `kind` may weigh beside the other weights.
  [[nodiscard]] double most_weight(std::size_t kind, const WorkValues& weights) const {
    double least = std::numeric_limits<double>::infinity();
    for (const LaneSet running : states_) {
      if (!has(work_of(running), kind)) continue;
      const bool computes = (running & lane_bit(Lane::Compute)) != 0;
      const double compute = computes ? weights[lane_index(Lane::Compute)] /
                                            contention_.slowdown(Lane::Compute, running)
                                      : 0;
      for (const PowerState& state : power_states(running)) {
        const double left = left_by_others(running, state.cost, weights, kind);
        least = std::min(least, contention_.slowdown(lane_of_work(kind), running) *
                                    (left - compute * state.speed));
      }
    }
    return least;
  }

  [[nodiscard]] double idle_weight(std::size_t kind, const WorkValues& weights) const {
    double least = std::numeric_limits<double>::infinity();
    for (const LaneSet running : states_) {
      if (!has(work_of(running), kind)) continue;
      const double cost = energy_.cost(std::min(energy_.other_watts(running), energy_.sustained()));
      least = std::min(least, contention_.slowdown(lane_of_work(kind), running) *
                                  left_by_others(running, cost, weights, kind));
    }
    return std::max(weights[kind], kSafe * least);
  }

  void add_kernels(LaneSet running, DualBound& bound) const {
    const double slowdown = contention_.slowdown(Lane::Compute, running);
    const double lanes_cost = energy_.cost(energy_.other_watts(running));
    add_unthrottled({slowdown * left_by_others(running, lanes_cost, bound.weights),
                     slowdown * energy_.cost_per_watt()},
                    bound);
    for (DualBound::Throttled& throttled : bound.throttled) {
      const double cost = energy_.cost(throttled.watts);
      throttled.weight =
          std::min(throttled.weight, slowdown * left_by_others(running, cost, bound.weights));
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
  std::vector<LaneSet> states_ = all_states();
};

/// Calls `visit` with any three of `variables` that have no kind of work in common. Unless
/// `any_lanes`, one is the compute lane.
template <typename Visit>
void for_each_three(const std::vector<Variable>& variables, bool any_lanes, const Visit& visit) {
  for (std::size_t a = 0; a < variables.size(); ++a) {
    if (!any_lanes && lane_of(variables[a]) != Lane::Compute) continue;
    for (std::size_t b = a + 1; b < variables.size(); ++b) {
      if ((variables[a] & variables[b]) != 0) continue;
      for (std::size_t c = b + 1; c < variables.size(); ++c) {
        if (((variables[a] | variables[b]) & variables[c]) != 0) continue;
        visit(Variables{variables[a], variables[b], variables[c]});
      }
    }
  }
}

/// Lanes as variables; those of files only where they contend.
std::vector<Variable> lane_variables(const ContentionModel& contention, LaneSet lanes) {
  std::vector<Variable> variables;
  for (const Lane lane : kLanes) {
    if ((lanes & lane_bit(lane)) == 0) continue;
    if (is_nvme_lane(lane) && !contends(contention, lane)) continue;
    variables.push_back(lane == Lane::D2H ? kAnyCopies : work_bit(lane_index(lane)));
  }
  return variables;
}

/// Vertices for any three of `variables`. Unless `any_lanes`, one is the compute lane.
std::vector<WorkValues> vertices_of(const std::vector<Variable>& variables, bool any_lanes,
                                    const DualBoundSolver& solver) {
  std::vector<WorkValues> all;
  for_each_three(variables, any_lanes,
                 [&](const Variables& three) { solver.add_vertices(three, all); });
  return all;
}

/// Weights that tell copies that add from others, and of more than three kinds of work.
std::vector<WorkValues> further_weights(std::vector<Variable> variables, bool tells_adding,
                                        bool any_lanes, const DualBoundSolver& solver,
                                        LaneSet used) {
  if (tells_adding) {
    variables.push_back(work_bit(lane_index(Lane::D2H)));
    variables.push_back(work_bit(kAddingCopies));
  }
  std::vector<WorkValues> further;
  for (const WorkValues& found : vertices_of(variables, any_lanes, solver)) {
    for (const bool last_first : {false, true}) {
      add_undominated(solver.raised(found, used, last_first), further);
    }
  }
  return further;
}

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
                                      const std::optional<PowerModel>& power, LaneSet used) {
  constexpr LaneSet kAllLanes = kD2HAdds - 1;
  std::vector<DualBound> plain, further;
  if (contention.none() && !power) return plain;
  const std::vector<Variable> lanes = lane_variables(contention, kAllLanes);
  const std::vector<Variable> used_lanes = lane_variables(contention, used);
  const bool is_told = (used & lane_bit(Lane::D2H)) != 0 && tells_adding(contention);
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    const bool has_energy = kEnergyMultipliers[multiplier] > 0;
    if (has_energy && !power) break;
    const Energy energy(power, kEnergyMultipliers[multiplier]);
    const DualBoundSolver solver(contention, energy);
    const auto append = [&](const std::vector<WorkValues>& all, bool is_plain) {
      std::vector<DualBound>& bounds = is_plain ? plain : further;
      for (const WorkValues& weights : all) {
        DualBound bound = solver.with_kernels(weights);
        bound.multiplier = multiplier;
        bound.is_plain = is_plain;
        if (bound.weights[lane_index(Lane::Compute)] >= 0) bounds.push_back(bound);
      }
    };
    if (is_plain_multiplier(multiplier)) append(vertices_of(lanes, !has_energy, solver), true);
    append(further_weights(used_lanes, is_told, !has_energy, solver, used), false);
  }
  plain.insert(plain.end(), further.begin(), further.end());
  return plain;
}

}  // namespace athanor
