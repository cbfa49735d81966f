// SPDX-License-Identifier: Apache-2.0
#include "sim/search/estimate.hpp"

#include "sim/cost/costs.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/memory.hpp"
#include "sim/search/estimate_load.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <numeric>
#include <span>
#include <string>
#include <utility>

namespace athanor {

Estimator::Estimator(const Profile& profile, const Platform& platform, const PlanRequest& request)
    : Estimator(profile, platform, request, adam_thread_choices(request, platform)) {}

Estimator::Estimator(const Profile& profile, const Platform& platform, const PlanRequest& request,
                     std::vector<int> adam_threads)
    : profile_(profile),
      platform_(platform),
      request_(request),
      slowdowns_(platform, request.num_gpus),
      adam_threads_(std::move(adam_threads)),
      num_units_(static_cast<int>(profile.architecture.units.size())) {
  std::map<std::string, std::size_t> index;
  for (const Unit& unit : profile.architecture.units) {
    const auto [entry, is_new] = index.try_emplace(unit.unit_class, classes_.size());
    if (is_new) {
      UnitClass& unit_class = classes_.emplace_back();
      static_cast<void>(parameter_offsets(unit, unit_class.elements));
      unit_class.elements = round_up(unit_class.elements, request.num_gpus * kParameterAlignment);
      unit_class.units_before.assign(static_cast<std::size_t>(num_units_) + 1, 0);
    }
    const std::size_t position =
        static_cast<std::size_t>(&unit - profile.architecture.units.data());
    UnitClass& unit_class = classes_[entry->second];
    if (unit.parameters.empty()) continue;
    ++unit_class.units;
    for (std::size_t u = position + 1; u < unit_class.units_before.size(); ++u) {
      ++unit_class.units_before[u];
    }
  }
}

Estimator::Activations& Estimator::activations(const Candidate& c) {
  const auto [entry, is_new] =
      activations_.try_emplace({c.batch.micro_batch, c.recompute_units, c.offload_units});
  Activations& result = entry->second;
  if (!is_new) return result;
  Plan plan =
      uniform_plan("activations", profile_, request_, {c.batch.micro_batch, 1},
                   largest_unit_elements(profile_.architecture), Sharding::Replicated, kAllOnGpu);
  recompute_leading(plan, c.recompute_units, c.offload_units);
  plan.gradient_buffers = largest_class_size(profile_.architecture);
  const Program program = lower(profile_, plan);
  Bytes statics = program.workspace_bytes;
  for (const Buffer& buffer : program.static_buffers) {
    if (buffer.tier == Tier::Gpu) statics += buffer.bytes;
    if (buffer.tier == Tier::Pinned) result.pinned_bytes += buffer.bytes;
  }
  result.peak_bytes = athanor::peak_bytes(program).gpu - statics;
  add_operations(program, result);
  return result;
}

void Estimator::add_operations(const Program& program, Activations& sums) const {
  sums.forward_below.resize(static_cast<std::size_t>(num_units_) + 1);
  sums.backward_below = sums.forward_below;
  sums.forward.resize(static_cast<std::size_t>(num_units_));
  sums.backward = sums.recomputed = sums.forward;
  const double slowdown = launch_slowdown(program, platform_);
  for (const Operation& op : program.operations) {
    if (op.kind == OpKind::OutputD2H || op.kind == OpKind::OutputH2D) {
      sums.copies[lane_index(op.lane)] += solo_seconds(op, program, platform_);
    } else if (is_unit_phase(op)) {
      const PowerDraw draw = power_draw(op, solo_seconds(op, program, platform_), platform_);
      const LagrangianBound powered = lagrangian_bound(draw, platform_);
      sums.compute += powered;
      add_kernel(sums.kernels, draw);
      const auto unit = static_cast<std::size_t>(op.unit);
      const bool is_forward = op.kind == OpKind::Forward;
      if (is_forward) sums.forward[unit] = draw;
      if (op.kind == OpKind::Backward) sums.backward[unit] = draw;
      if (op.kind == OpKind::Recompute) sums.recomputed[unit] = draw;
      (is_forward ? sums.forward_below : sums.backward_below)[unit + 1] += powered;
    } else {
      continue;
    }
    sums.issue_seconds += slowdown * op.issue_seconds;
    ++sums.operations[lane_index(op.lane)];
  }
  for (auto* below : {&sums.forward_below, &sums.backward_below}) {
    for (std::size_t u = 1; u < below->size(); ++u) (*below)[u] += (*below)[u - 1];
  }
}

Seconds Estimator::bound_seconds(const Candidate& c, SearchLevel scope, Seconds cutoff) {
  if (scope == SearchLevel::Leaf) return bound_seconds(c, cutoff);
  const LaneWork load = lane_work(c, scope);
  if (scope != SearchLevel::Group) return overlapped_seconds(c, load, scope, cutoff);
  // How many threads the CPU has says what it leaves the others.
  Seconds least = kNever;
  Candidate with = c;
  for (const int threads : adam_threads_) {
    with.adam_threads = threads;
    least = std::min(least, overlapped_seconds(with, load, scope, cutoff));
  }
  return least;
}

double Estimator::host_elements(const Candidate& c) const {
  std::int64_t elements = 0;
  for (const UnitClass& unit_class : classes_) {
    const Chunk unit{.elements = unit_class.elements};
    elements +=
        place(c, unit_class).host_optimizer * owned_elements(unit, c.sharding, request_.num_gpus);
  }
  return static_cast<double>(elements);
}

Seconds Estimator::bound_seconds(const Candidate& c, Seconds cutoff) {
  const LaneWork load = lane_work(c, SearchLevel::Leaf);
  const Seconds overlapped = overlapped_seconds(c, load, SearchLevel::Leaf, cutoff);
  if (overlapped > cutoff) return overlapped;
  return std::max({overlapped, norm_cycle_seconds(c, load), late_cycle_seconds(c, load),
                   stream_cycle_seconds(c, load), parted_seconds(c, load)});
}

/// Nothing waits for anything else.
Seconds Estimator::overlapped_seconds(const Candidate& c, const LaneWork& load, SearchLevel scope,
                                      Seconds cutoff) {
  const Activations& units = activations(c);
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  constexpr auto kCompute = lane_index(Lane::Compute);
  const BoundTables& slowdowns = slowdowns_.at(c.adam_threads);
  const Seconds limited = accumulation * units.compute.most() * slowdowns.least[kCompute];
  Seconds issue = accumulation * units.issue_seconds;
  for (const auto& [lane, seconds] : platform_.issue) {
    issue += static_cast<double>(load.operations[lane_index(lane)]) * seconds;
  }
  const Seconds busiest = std::max({issue, limited, busiest_seconds(load.busy, slowdowns)});
  // A faster lane may take more of what it shares from another.
  const bool may_rise = scope == SearchLevel::Group && slowdowns.limits_are_of_sharing;
  if (busiest > cutoff || may_rise) return busiest;
  LaneValues others = load.busy;
  others[kCompute] -= accumulation * units.compute.full_clock();
  return std::max(
      busiest,
      dual_bound_seconds(others, throttled_kernels(c).all, accumulation, slowdowns).most());
}

const Estimator::ThrottledWork& Estimator::throttled_kernels(const Candidate& c) {
  Activations& units = activations(c);
  const auto [entry, is_new] = units.limited.try_emplace(c.adam_threads);
  ThrottledWork& limited = entry->second;
  if (!is_new) return limited;
  const auto plus = [&](std::vector<Seconds> sum, const PowerDraw& kernel) {
    const std::vector<double>& weights = kernel_weights(kernel, c.adam_threads);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += kernel.seconds * weights[i];
    return sum;
  };
  const std::vector<Seconds> none(slowdowns_.at(c.adam_threads).limits.size());
  limited.all = std::accumulate(units.kernels.begin(), units.kernels.end(), none, plus);
  limited.forward_from.resize(units.forward.size());
  for (std::size_t unit = units.forward.size(); unit-- > 0;) {
    const bool is_last = unit + 1 == units.forward.size();
    limited.forward_from[unit] =
        plus(is_last ? none : limited.forward_from[unit + 1], units.forward[unit]);
  }
  const auto below = [&](const std::vector<PowerDraw>& by_unit) {
    std::vector<std::vector<Seconds>> sums{none};
    for (const PowerDraw& kernel : by_unit) sums.push_back(plus(sums.back(), kernel));
    return sums;
  };
  limited.recompute_below = below(units.recomputed);
  limited.backward_below = below(units.backward);
  for (std::size_t u = 0; u < limited.backward_below.size(); ++u) {
    std::ranges::transform(limited.backward_below[u], limited.recompute_below[u],
                           limited.backward_below[u].begin(), std::plus());
  }
  return limited;
}

const std::vector<double>& Estimator::kernel_weights(const PowerDraw& kernel, int adam_threads) {
  const auto [entry, is_new] =
      kernel_weights_.try_emplace({adam_threads, kernel.watts, kernel.exponent});
  if (is_new) {
    const PowerDraw second{1, kernel.watts, kernel.exponent};
    entry->second = throttled_seconds({&second, 1}, slowdowns_.at(adam_threads));
  }
  return entry->second;
}

int Estimator::update_barrier_unit(const Candidate& c) const {
  const int first = std::max(c.leading_gpu_optimizer, c.gpu_adam_units);
  const int end = num_units_ - std::max(c.trailing_gpu_optimizer, c.trailing_nvme_optimizer);
  const auto is_updated = [&](int unit) {
    return !profile_.architecture.units[static_cast<std::size_t>(unit)].parameters.empty();
  };
  // As gradients arrive the first unit is the last, and after backward, or a norm, the last is.
  if (request_.clipping == Clipping::None) {
    for (int unit = std::max(first, c.late_updates); unit < end; ++unit) {
      if (is_updated(unit)) return unit;
    }
  }
  for (int unit = end; unit-- > first;) {
    if (is_updated(unit)) return unit;
  }
  return -1;
}

/// Work of one lane in a part of a step, beside which the device runs no kernels of units but some.
struct Estimator::Serial {
  Lane lane = Lane::D2H;
  Seconds seconds = 0;
  std::vector<Seconds> beside;  ///< by each of BoundTables::limits
};

/// The turn of a step, before and after forward of the gate, and its middle one after the other,
/// each with what is done within it.
Seconds Estimator::parted_seconds(const Candidate& c, const LaneWork& load) {
  const std::int64_t before_last = c.batch.accumulation - 1;
  if (before_last == 0 && load.update_barrier_unit < 0) return 0;
  const BoundTables& slowdowns = slowdowns_.at(c.adam_threads);
  const Activations& units = activations(c);
  const auto part = [&](LaneValues busy, std::span<const Seconds> kernels, Seconds at_full_clock,
                        std::int64_t micro_batches, std::span<const Serial> serials) {
    const auto times = static_cast<double>(micro_batches);
    LagrangianBound seconds = dual_bound_seconds(busy, kernels, times, slowdowns);
    for (const Serial& serial : serials) {
      const LagrangianBound other = serial_seconds(serial, busy, kernels, times, slowdowns);
      std::ranges::transform(seconds.at, other.at, seconds.at.begin(),
                             [](Seconds a, Seconds b) { return std::max(a, b); });
    }
    busy[lane_index(Lane::Compute)] += times * at_full_clock;
    seconds.at.front() = std::max(seconds.at.front(), busiest_seconds(busy, slowdowns));
    return seconds;
  };
  const ThrottledWork& kernels = throttled_kernels(c);
  const Seconds micro_batch = units.compute.full_clock();
  std::vector<LagrangianBound> parts;
  if (before_last > 0) {
    parts.push_back(part(load.inner_micro_batches, kernels.all, micro_batch, before_last,
                         serials(c, load, /*at_turn=*/false)));
  }
  const std::vector<Serial> at_turn = serials(c, load, /*at_turn=*/true);
  if (load.update_barrier_unit < 0) {
    parts.push_back(part(load.step_boundary, kernels.all, micro_batch, 1, at_turn));
    return consecutive_seconds(parts, platform_);
  }
  const auto update_barrier_unit = static_cast<std::size_t>(load.update_barrier_unit);
  const std::vector<Seconds>& after = kernels.forward_from[update_barrier_unit];
  std::vector<Seconds> before = kernels.all;
  std::ranges::transform(before, after, before.begin(), std::minus());
  const Seconds after_barrier = units.forward_below.back().full_clock() -
                                units.forward_below[update_barrier_unit].full_clock();
  parts.push_back(part(load.before_barrier, before, micro_batch - after_barrier, 1, at_turn));
  parts.push_back(part(load.after_barrier, after, after_barrier, 1, {}));
  return consecutive_seconds(parts, platform_);
}

/// Gradients that leave the only buffer, beside which the device recomputes, and state that streams
/// before the gate.
std::vector<Estimator::Serial> Estimator::serials(const Candidate& c, const LaneWork& load,
                                                  bool at_turn) {
  const ThrottledWork& kernels = throttled_kernels(c);
  const auto before_last = static_cast<double>(c.batch.accumulation - 1);
  const Seconds last = before_last > 0 ? load.later_drains : load.first_drains;
  const Seconds others = load.first_drains + (before_last - 1) * load.later_drains;
  std::vector<Serial> result;
  if (const Seconds drains = at_turn ? last : others; drains > 0) {
    result.push_back({Lane::D2H, drains, kernels.recompute_below.back()});
    for (Seconds& seconds : result.back().beside) seconds *= at_turn ? 1 : before_last;
  }
  if (at_turn && load.update_barrier_unit >= 0 && load.streamed > 0) {
    result.push_back({Lane::H2D, load.streamed,
                      kernels.backward_below[first_with_parameters(c.leading_gpu_optimizer)]});
  }
  return result;
}

LagrangianBound Estimator::serial_seconds(const Serial& serial, LaneValues busy,
                                          std::span<const Seconds> kernels, double times,
                                          const BoundTables& slowdowns) {
  busy[lane_index(Lane::Compute)] = 0;  // updates may run beside
  busy[lane_index(serial.lane)] -= serial.seconds;
  std::vector<Seconds> fixed(kernels.size());
  const std::vector<double>& weights = slowdowns.lane_idle_weights[lane_index(serial.lane)];
  for (std::size_t i = 0; i < fixed.size(); ++i) {
    fixed[i] = times * kernels[i] - serial.beside[i] + serial.seconds * weights[i];
  }
  return dual_bound_seconds(busy, fixed, 1, slowdowns);
}

std::size_t Estimator::first_with_parameters(int from) const {
  auto unit = static_cast<std::size_t>(from);
  while (profile_.architecture.units[unit].parameters.empty()) ++unit;
  return unit;
}

/// From one norm to the next: the CPU's updates come after it in the order of the next forward, and
/// the last of them before its unit's forward. What the step still has to compute then is all but
/// the forward of units before.
Seconds Estimator::norm_cycle_seconds(const Candidate& c, const LaneWork& load) {
  if (load.after_norm <= 0) return 0;
  const BoundTables& slowdowns = slowdowns_.at(c.adam_threads);
  return cycle_seconds(c, load.after_norm * slowdowns.least[lane_index(Lane::CpuAdam)],
                       activations(c).forward_below.back());
}

/// Late updates are of the first units, in the order of the next forward: the first of them waits
/// for its gradient or for the norm, and the last comes before its unit's forward.
Seconds Estimator::late_cycle_seconds(const Candidate& c, const LaneWork& load) {
  if (load.late <= 0) return 0;
  const BoundTables& slowdowns = slowdowns_.at(c.adam_threads);
  const Activations& units = activations(c);
  LagrangianBound beside = units.forward_below[static_cast<std::size_t>(c.late_updates) - 1];
  if (request_.clipping == Clipping::None) {
    beside += units.backward_below[first_with_parameters(
        std::max(c.leading_gpu_optimizer, c.gpu_adam_units))];
  }
  return cycle_seconds(c, load.late * slowdowns.least[lane_index(Lane::CpuAdam)], beside);
}

/// The device updates what streams through it after backward, first units first, and before the
/// next forward: nothing is read before backward of the first of them, beside which the device
/// computes no more than backward of units before.
Seconds Estimator::stream_cycle_seconds(const Candidate& c, const LaneWork& load) {
  if (load.streamed <= 0) return 0;
  const auto& least = slowdowns_.at(c.adam_threads).least;
  return cycle_seconds(
      c, load.streamed * least[lane_index(Lane::H2D)],
      activations(c).backward_below[first_with_parameters(c.leading_gpu_optimizer)]);
}

/// The units' phases wait for `updates`, but for those that run `beside` them, of which the energy
/// counts all the same.
Seconds Estimator::cycle_seconds(const Candidate& c, Seconds before_barrier,
                                 const LagrangianBound& beside) {
  const LagrangianBound& all = activations(c).compute;
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  const double least = slowdowns_.at(c.adam_threads).least[lane_index(Lane::Compute)];
  Seconds most = 0;
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    const Seconds computes =
        accumulation * all.at[multiplier] - (beside.at[multiplier] - beside.energy(multiplier));
    most = std::max(most, (1 - kEnergyMultipliers[multiplier]) * before_barrier + least * computes);
  }
  return most;
}

}  // namespace athanor
