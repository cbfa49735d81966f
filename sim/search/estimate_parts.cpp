// SPDX-License-Identifier: Apache-2.0
// Bounds on the consecutive parts of a step.
#include "sim/search/estimate.hpp"
#include "sim/search/lane_work.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <utility>
#include <vector>

namespace athanor {
namespace {

void raise(LagrangianBound& bound, const LagrangianBound& other) {
  std::ranges::transform(bound.at, other.at, bound.at.begin(),
                         [](Seconds a, Seconds b) { return std::max(a, b); });
}

}  // namespace

/// Work of one lane in a part of a step during which only certain kernels of units can run.
struct Estimator::Serial {
  WorkValues work{};
  std::vector<Seconds> kernels;  ///< that can run meanwhile, by each of BoundTables::dual_bounds
};

/// Sum of phases of units: their least time by each of BoundTables::dual_bounds, and unthrottled.
struct Estimator::PhaseSum {
  std::vector<Seconds> weighted;
  Seconds unthrottled = 0;

  PhaseSum& add(double times, const PhaseSum& other) {
    for (std::size_t i = 0; i < weighted.size(); ++i) weighted[i] += times * other.weighted[i];
    unthrottled += times * other.unthrottled;
    return *this;
  }
};

/// One of the consecutive parts of a step.
struct Estimator::Part {
  WorkValues busy;  ///< without phases
  PhaseSum phases;
  std::vector<Serial> serials;
  Seconds chain = 0;  ///< operations of which each waits for the one before; none is a phase
};

LagrangianBound Estimator::part_seconds(Part part, const BoundTables& tables) {
  const std::vector<Seconds>& kernels = part.phases.weighted;
  LagrangianBound seconds = dual_bound_seconds(part.busy, kernels, 1, tables);
  for (const Serial& serial : part.serials) {
    raise(seconds, serial_seconds(serial, part.busy, kernels, tables));
  }
  part.busy[lane_index(Lane::Compute)] += part.phases.unthrottled;
  seconds.at.front() = std::max(seconds.at.front(), busiest_seconds(part.busy, tables));
  LagrangianBound chain;
  std::ranges::transform(kEnergyMultipliers, chain.at.begin(),
                         [&](double multiplier) { return (1 - multiplier) * part.chain; });
  raise(seconds, chain);
  return seconds;
}

/// Sum of the bounds on consecutive parts: the inner micro-batches, and those of the step boundary,
/// each with the work that must fall into it. Micro-batches of the last group are at the boundary.
Seconds Estimator::parts_seconds(const Candidate& c, const LaneWork& lanes, Seconds cutoff) {
  const auto before_last = static_cast<double>(c.batch.accumulation - c.batch.group);
  if (before_last == 0 && lanes.update_barrier_unit < 0) return 0;
  const BoundTables& tables = tables_.at(c.adam_threads);
  std::vector<LagrangianBound> inner;
  if (before_last > 0) inner.push_back(inner_seconds(c, lanes));
  Seconds most = 0;
  for (const std::vector<Part>& boundary : boundary_parts(c, lanes)) {
    std::vector<LagrangianBound> parts = inner;
    for (const Part& part : boundary) parts.push_back(part_seconds(part, tables));
    most = std::max(most, consecutive_seconds(parts, problem_.platform));
    if (most > cutoff) break;
  }
  return most;
}

/// Bound of the inner micro-batches: of all at once, and of their passes forward and backward,
/// which come in turn and so add up at each multiplier. Backward has two parts: the leading units
/// with state on the device, and the others before them. The CPU works only at the step boundary.
LagrangianBound Estimator::inner_seconds(Candidate c, const LaneWork& lanes) {
  c.adam_threads = 0;
  const BoundTables& tables = tables_.at(c.adam_threads);
  const auto before_last = static_cast<double>(c.batch.accumulation - c.batch.group);
  const auto interleaved = static_cast<double>((c.batch.num_groups() - 1) * (c.batch.group - 1));
  const auto on_device = static_cast<std::size_t>(c.leading_gpu_optimizer);
  const std::vector<Serial> drains = this->drains(c, lanes, /*at_boundary=*/false);
  PhaseSum all = micro_batch_phases(c);
  all.add(before_last - 1, all);
  const PhaseSum of_last = forward_from(c, static_cast<std::size_t>(num_units_) - 1);
  PhaseSum backward = backward_from(c, 0);
  backward.add(before_last - 1, backward).add(interleaved, of_last);
  PhaseSum draining = backward_from(c, on_device);
  draining.add(before_last - 1, draining).add(interleaved, of_last);
  PhaseSum forward = all, undrained = backward;
  forward.add(-1, backward);
  undrained.add(-1, draining);
  LagrangianBound in_turn = part_seconds({lanes.inner_drains, draining, {}}, tables);
  in_turn += part_seconds({{}, undrained, {}}, tables);
  raise(in_turn, part_seconds({lanes.inner_backward, backward, drains}, tables));
  in_turn += part_seconds({lanes.inner_forward, forward, {}}, tables);
  raise(in_turn, part_seconds({lanes.inner_micro_batches, all, drains}, tables));
  return in_turn;
}

Estimator::PhaseSum Estimator::micro_batch_phases(const Candidate& c) {
  return {kernel_sums(c), activations(c).compute.unthrottled()};
}

Estimator::PhaseSum Estimator::forward_from(const Candidate& c, std::size_t unit) {
  const std::vector<LagrangianBound>& below = activations(c).forward_below;
  return {unit_kernel_sums(c).forward_from[unit],
          below.back().unthrottled() - below[unit].unthrottled()};
}

Estimator::PhaseSum Estimator::backward_from(const Candidate& c, std::size_t unit) {
  const std::vector<LagrangianBound>& below = activations(c).backward_below;
  const UnitKernelSums& kernels = unit_kernel_sums(c);
  PhaseSum from{kernels.backward_below.back(), below.back().unthrottled()};
  return from.add(-1, {kernels.backward_below[unit], below[unit].unthrottled()});
}

/// Ways to divide the step boundary: at the norm and at the update barrier, or only there. The ways
/// that say most come first.
std::vector<std::vector<Estimator::Part>> Estimator::boundary_parts(const Candidate& c,
                                                                    const LaneWork& lanes) {
  const auto members = static_cast<double>(c.batch.group);
  PhaseSum all = micro_batch_phases(c);
  all.add(members - 1, all);
  const std::vector<Serial> serials = this->serials(c, lanes, /*at_boundary=*/true);
  if (lanes.update_barrier_unit < 0 || !terms_.has(BoundTerm::UpdateBarrier)) {
    return {{{lanes.step_boundary, all, serials}}};
  }
  const auto barrier = static_cast<std::size_t>(lanes.update_barrier_unit);
  const PhaseSum of_last = forward_from(c, static_cast<std::size_t>(num_units_) - 1);
  // All but the first member run the last unit's forward between backwards of that unit.
  PhaseSum after = forward_from(c, barrier);
  after.add(members - 1, after).add(1 - members, of_last);
  PhaseSum before = all;
  before.add(-1, after);
  const Part after_barrier{lanes.after_barrier, after, {}};
  const std::vector<Part> at_barrier{{lanes.before_barrier, before, serials}, after_barrier};
  if (problem_.request.clipping == Clipping::None) {
    if (lanes.tail.unit < 0 || !terms_.has(BoundTerm::UpdateParts)) return {at_barrier};
    std::vector<Part> at_update = update_parts(c, lanes);
    at_update.push_back(after_barrier);
    return {at_update, at_barrier};
  }
  if (!terms_.has(BoundTerm::NormParts)) return {at_barrier};
  std::vector<Part> at_norm = norm_parts(c, lanes);
  PhaseSum before_norm = at_norm[0].phases;
  before_norm.add(1, at_norm[1].phases);
  const std::vector<Part> whole{
      {lanes.before_norm, before_norm, drains(c, lanes, /*at_boundary=*/true)},
      at_norm[2],
      after_barrier};
  at_norm.push_back(after_barrier);
  return {at_norm, whole, at_barrier};
}

/// Parts of the step boundary before the update barrier: up to the end of the last backward with a
/// gradient for the host, from there to the norm, and after it. Units before the first that has
/// parameters wait for no norm, and no norm waits for them.
std::vector<Estimator::Part> Estimator::norm_parts(const Candidate& c, const LaneWork& lanes) {
  const auto members = static_cast<double>(c.batch.group);
  const auto& least = tables_.at(c.adam_threads).least_slowdown;
  const std::size_t first = first_with_parameters(0);
  const std::size_t last_copied = first_off_gpu(c, c.leading_gpu_optimizer);
  PhaseSum draining = backward_from(c, last_copied);
  draining.add(members - 1, draining)
      .add(members - 1, forward_from(c, static_cast<std::size_t>(num_units_) - 1));
  PhaseSum undrained = backward_from(c, first);
  undrained.add(-1, backward_from(c, last_copied)).add(members - 1, undrained);
  PhaseSum after = forward_from(c, first);
  after.add(-1, forward_from(c, static_cast<std::size_t>(lanes.update_barrier_unit)));
  after.add(members - 1, after);
  const bool adds = c.batch.group == 1 && c.batch.accumulation > 1;
  const Seconds to_norm = least[work_index(Lane::D2H, adds)] * lanes.last_copied +
                          least[lane_index(Lane::CpuAdam)] * lanes.last_squared;
  const Seconds to_barrier =
      least[lane_index(Lane::CpuAdam)] * lanes.after_norm[lane_index(Lane::CpuAdam)] +
      least[lane_index(Lane::H2D)] * lanes.last_fetched;
  return {{lanes.last_drains, draining, {}},
          {{}, undrained, {}, to_norm},
          {lanes.after_norm, after, {}, to_barrier}};
}

/// Parts of the step boundary before the update barrier where nothing is clipped: up to the end of
/// the backward whose gradient the CPU takes last, and from there on. Where all its updates are
/// late, it is the backward whose gradient it takes first.
std::vector<Estimator::Part> Estimator::update_parts(const Candidate& c, const LaneWork& lanes) {
  const auto members = static_cast<double>(c.batch.group);
  const auto& least = tables_.at(c.adam_threads).least_slowdown;
  const LaneWork::Tail& tail = lanes.tail;
  const auto last = static_cast<std::size_t>(tail.unit);
  PhaseSum draining = backward_from(c, last);
  draining.add(members - 1, draining)
      .add(members - 1, forward_from(c, static_cast<std::size_t>(num_units_) - 1));
  PhaseSum after = backward_from(c, 0);
  after.add(-1, backward_from(c, last))
      .add(1, forward_from(c, 0))
      .add(-1, forward_from(c, static_cast<std::size_t>(lanes.update_barrier_unit)));
  after.add(members - 1, after);
  const std::size_t copies = work_index(Lane::D2H, tail.adds);
  const std::size_t adds =
      lane_index(problem_.request.num_gpus > 1 ? Lane::Collective : Lane::Compute);
  const double collective = least[lane_index(Lane::Collective)];
  const double cpu = least[lane_index(Lane::CpuAdam)];
  WorkValues busy{};
  busy[copies] = tail.copied.seconds;
  busy[lane_index(Lane::CpuAdam)] = tail.updated.seconds + lanes.late;
  busy[lane_index(Lane::H2D)] = tail.published.seconds;
  busy[lane_index(Lane::Collective)] = tail.reduced.seconds + tail.gathered.seconds;
  busy[adds] += tail.added.seconds;
  const Seconds to_copy = collective * tail.reduced.first() + least[adds] * tail.added.first();
  const Seconds from_update =
      least[lane_index(Lane::H2D)] * tail.published.last + collective * tail.gathered.last;
  const bool is_early = tail.updated.operations > 0;
  const Seconds by_copies =
      to_copy + least[copies] * tail.copied.seconds + cpu * tail.updated.last + from_update;
  const Seconds by_updates = to_copy + least[copies] * tail.copied.first() +
                             cpu * (tail.updated.seconds + lanes.late) +
                             (is_early && lanes.late > 0 ? 0 : from_update);
  const Seconds chain = std::max(is_early ? by_copies : 0, by_updates);
  return {{tail.before, draining, {}}, {busy, after, {}, chain}};
}

/// Gradients that leave the only buffer while the device recomputes.
std::vector<Estimator::Serial> Estimator::drains(const Candidate& c, const LaneWork& lanes,
                                                 bool at_boundary) {
  const auto before_last = static_cast<double>(c.batch.accumulation - c.batch.group);
  const bool has_first = at_boundary == (before_last == 0);
  const double later = at_boundary ? (before_last > 0 ? 1 : 0) : before_last - 1;
  Serial drains{{}, unit_kernel_sums(c).recompute_below.back()};
  Seconds& copied = drains.work[lane_index(Lane::D2H)];
  Seconds& added = drains.work[kAddingCopies];
  copied = has_first ? lanes.first_drains : 0;
  added = later * lanes.later_drains;
  if (copied + added <= 0 || !terms_.has(BoundTerm::Serials)) return {};
  for (Seconds& kernel : drains.kernels) kernel *= at_boundary ? 1 : before_last;
  return {drains};
}

/// Drains, and state that streams before the update barrier.
std::vector<Estimator::Serial> Estimator::serials(const Candidate& c, const LaneWork& lanes,
                                                  bool at_boundary) {
  const UnitKernelSums& kernels = unit_kernel_sums(c);
  const auto group = static_cast<double>(c.batch.group);
  std::vector<Serial> result = drains(c, lanes, at_boundary);
  if (!terms_.has(BoundTerm::Serials)) return result;
  if (at_boundary && lanes.update_barrier_unit >= 0 && lanes.streamed > 0) {
    Serial streams{{}, kernels.backward_below[first_off_gpu(c, c.leading_gpu_optimizer)]};
    streams.work[lane_index(Lane::H2D)] = lanes.streamed;
    result.push_back(std::move(streams));
    for (Seconds& seconds : result.back().kernels) seconds *= group;
  }
  return result;
}

LagrangianBound Estimator::serial_seconds(const Serial& serial, WorkValues busy,
                                          std::span<const Seconds> kernels,
                                          const BoundTables& tables) {
  busy[lane_index(Lane::Compute)] = 0;  // updates may run meanwhile
  std::vector<Seconds> fixed(kernels.size());
  std::ranges::transform(kernels, serial.kernels, fixed.begin(), std::minus());
  for (std::size_t kind = 0; kind < busy.size(); ++kind) {
    if (serial.work[kind] == 0) continue;
    busy[kind] -= serial.work[kind];
    const std::vector<double>& weights = tables.idle_weights[kind];
    for (std::size_t i = 0; i < fixed.size(); ++i) fixed[i] += serial.work[kind] * weights[i];
  }
  return dual_bound_seconds(busy, fixed, 1, tables);
}

}  // namespace athanor
