// SPDX-License-Identifier: Apache-2.0
#include "sim/search/estimate.hpp"

#include "sim/cost/costs.hpp"
#include "sim/lowering/lowering.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/model/memory.hpp"
#include "sim/policy/cuda_graphs.hpp"
#include "sim/search/lane_work.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <utility>

namespace athanor {
namespace {

/// Placements whose bytes are kept: those of one combination of the other choices, for some 40
/// units.
constexpr std::size_t kPlacedBytes = 4096;

}  // namespace

Estimator::Estimator(const TuningProblem& problem)
    : Estimator(problem, adam_thread_choices(problem.request, problem.platform)) {}

Estimator::Estimator(const TuningProblem& problem, std::vector<int> adam_threads, BoundTerms terms)
    : problem_(problem),
      tables_(problem.platform, problem.request.num_gpus, terms, problem.request.limits.nvme > 0),
      adam_threads_(std::move(adam_threads)),
      terms_(terms),
      num_units_(static_cast<int>(problem.profile.architecture.units.size())),
      placed_bytes_(kPlacedBytes) {
  std::map<std::string, std::size_t> index;
  for (const Unit& unit : problem.profile.architecture.units) {
    const auto [entry, is_new] = index.try_emplace(unit.unit_class, classes_.size());
    if (is_new) {
      UnitClass& unit_class = classes_.emplace_back();
      unit_class.name = unit.unit_class;
      static_cast<void>(parameter_offsets(unit, unit_class.elements));
      unit_class.elements =
          round_up(unit_class.elements,
                   problem.request.num_gpus * shard_multiple(problem.request.adam_state));
      unit_class.units_before.assign(static_cast<std::size_t>(num_units_) + 1, 0);
    }
    const std::size_t position =
        static_cast<std::size_t>(&unit - problem.profile.architecture.units.data());
    UnitClass& unit_class = classes_[entry->second];
    if (unit.parameters.empty()) continue;
    ++unit_class.units;
    unit_class.lent += problem.profile.architecture.lends(position) ? 1 : 0;
    for (std::size_t u = position + 1; u < unit_class.units_before.size(); ++u) {
      ++unit_class.units_before[u];
    }
  }
}

Program Estimator::lower_group(const Candidate& c, std::int64_t group) const {
  Plan plan = uniform_plan(
      "activations", problem_.profile, problem_.request, {c.batch.micro_batch, group, group},
      largest_unit_elements(problem_.profile.architecture), Sharding::Replicated, kAllOnGpu);
  plan.cuda_graphs = takes_graphs(problem_.profile, problem_.request, c.batch.micro_batch);
  recompute_leading(plan, c.recompute_units, c.offload_units);
  plan.gradient_buffers =
      std::max(largest_class_size(problem_.profile.architecture), static_cast<int>(group));
  plan.snapshot_copies = plan.snapshot_every = 1;
  plan.snapshot_send = SnapshotSend::Direct;
  plan.snapshot = Snapshot::None;  // it moves no activations, and most need state on the host
  return lower(problem_.profile, plan);
}

const Estimator::ActivationBytes& Estimator::activation_bytes(const Candidate& c) {
  auto& of_batch = activation_bytes_[{c.batch.micro_batch, c.batch.group}];
  const auto counts = static_cast<std::size_t>(num_units_) + 1;
  if (of_batch.empty()) of_batch.resize(counts * counts);
  std::optional<ActivationBytes>& known =
      of_batch[static_cast<std::size_t>(c.recompute_units) * counts +
               static_cast<std::size_t>(c.offload_units)];
  if (!known) known = measure_activations(c);
  return *known;
}

Estimator::ActivationBytes Estimator::measure_activations(const Candidate& c) const {
  const Program program = lower_group(c, c.batch.group);
  ActivationBytes bytes;
  bytes.graphs = program.graph_bytes;
  Bytes statics = program.workspace_bytes + program.graph_bytes;
  for (const Buffer& buffer : program.static_buffers) {
    if (buffer.tier == Tier::Gpu) statics += buffer.bytes;
    if (buffer.tier == Tier::Pinned) bytes.pinned += buffer.bytes;
  }
  bytes.peak = athanor::peak_bytes(program).gpu - statics;
  return bytes;
}

Estimator::Activations& Estimator::activations(const Candidate& c) {
  const auto [entry, is_new] =
      activations_.try_emplace({c.batch.micro_batch, c.recompute_units, c.offload_units});
  if (is_new) add_operations(lower_group(c, /*group=*/1), entry->second);
  return entry->second;
}

void Estimator::add_operations(const Program& program, Activations& sums) const {
  sums.forward_below.resize(static_cast<std::size_t>(num_units_) + 1);
  sums.backward_below = sums.forward_below;
  sums.forward.resize(static_cast<std::size_t>(num_units_));
  sums.backward = sums.recomputed = sums.forward;
  const double slowdown = launch_slowdown(program, problem_.platform);
  for (const Operation& op : program.operations) {
    if (op.kind == OpKind::OutputD2H || op.kind == OpKind::OutputH2D) {
      sums.copies[lane_index(op.lane)] += solo_seconds(op, program, problem_.platform);
    } else if (is_unit_phase(op)) {
      const PowerDraw draw =
          power_draw(op, solo_seconds(op, program, problem_.platform), problem_.platform);
      const LagrangianBound powered = lagrangian_bound(draw, problem_.platform);
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

Seconds Estimator::bound_seconds(const Candidate& c, SearchLevel level, Seconds cutoff) {
  if (level == SearchLevel::Leaf) return bound_seconds(c, cutoff);
  const LaneWork lanes = lane_work(c, level);
  if (level != SearchLevel::Group) return overlapped_seconds(c, lanes, level, cutoff);
  return least_overlapped_seconds(c, lanes, level, cutoff);
}

Seconds Estimator::bound_seconds(const FamilyReach& reach) {
  return least_overlapped_seconds(reach.most, lane_work(reach), SearchLevel::Family, kNever);
}

/// More threads of the CPU leave the other lanes less.
Seconds Estimator::least_overlapped_seconds(const Candidate& c, const LaneWork& lanes,
                                            SearchLevel level, Seconds cutoff) {
  Seconds least = kNever;
  Candidate with = c;
  for (const int threads : adam_threads_) {
    with.adam_threads = threads;
    least = std::min(least, overlapped_seconds(with, lanes, level, cutoff));
  }
  return least;
}

double Estimator::host_elements(const Candidate& c) const {
  std::int64_t elements = 0;
  for (const UnitClass& unit_class : classes_) {
    const Chunk unit{.elements = unit_class.elements};
    elements += place(for_class(c, unit_class), unit_class).host_optimizer *
                owned_elements(unit, c.sharding, problem_.request.num_gpus);
  }
  return static_cast<double>(elements);
}

Seconds Estimator::bound_seconds(const Candidate& c, Seconds cutoff) {
  const LaneWork lanes = lane_work(c, SearchLevel::Leaf);
  const Seconds overlapped = overlapped_seconds(c, lanes, SearchLevel::Leaf, cutoff);
  if (overlapped > cutoff) return overlapped;
  const auto if_has = [this](BoundTerm term, auto bound) {
    return terms_.has(term) ? bound() : Seconds{0};
  };
  const Seconds cycles = std::max(
      {overlapped, if_has(BoundTerm::NormCycle, [&] { return norm_cycle_seconds(c, lanes); }),
       if_has(BoundTerm::LateCycle, [&] { return late_cycle_seconds(c, lanes); }),
       if_has(BoundTerm::StreamCycle, [&] { return stream_cycle_seconds(c, lanes); })});
  if (cycles > cutoff) return cycles;
  return std::max(cycles,
                  if_has(BoundTerm::Parts, [&] { return parts_seconds(c, lanes, cutoff); }));
}

/// Bound without waits: all lanes work at once.
Seconds Estimator::overlapped_seconds(const Candidate& c, const LaneWork& lanes, SearchLevel level,
                                      Seconds cutoff) {
  const Activations& units = activations(c);
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  constexpr auto kCompute = lane_index(Lane::Compute);
  const BoundTables& tables = tables_.at(c.adam_threads);
  const bool is_group = level <= SearchLevel::Group;
  Seconds compute = 0;
  for (std::size_t multiplier = 0; multiplier < units.compute.at.size(); ++multiplier) {
    if (!terms_.has_multiplier(multiplier)) continue;
    if (is_group && !is_plain_multiplier(multiplier)) continue;
    compute = std::max(compute, units.compute.at[multiplier]);
  }
  const Seconds throttled = accumulation * compute * tables.least_slowdown[kCompute];
  Seconds issue = accumulation * units.issue_seconds;
  for (const auto& [lane, seconds] : problem_.platform.issue) {
    issue += static_cast<double>(lanes.operations[lane_index(lane)]) * seconds;
  }
  WorkValues others = lanes.busy;
  if (is_group) others[lane_index(Lane::D2H)] += std::exchange(others[kAddingCopies], 0);
  const Seconds busiest = std::max({issue, throttled, busiest_seconds(others, tables)});
  // Under max-min sharing a faster lane may take more from another, which raises the bound.
  const bool may_rise = is_group && tables.dual_bounds_are_max_min;
  if (busiest > cutoff || may_rise || !terms_.has(BoundTerm::Overlap)) return busiest;
  others[kCompute] -= accumulation * units.compute.unthrottled();
  std::span<const Seconds> kernels = kernel_sums(c);
  if (is_group) kernels = kernels.first(tables.num_plain_bounds);
  return std::max(busiest, dual_bound_seconds(others, kernels, accumulation, tables).most());
}

Estimator::KernelSums Estimator::with_kernel(KernelSums sums, const PowerDraw& kernel,
                                             int adam_threads) {
  const std::vector<double>& weights = tables_.kernel_weights(kernel, adam_threads);
  for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += kernel.seconds * weights[i];
  return sums;
}

const Estimator::KernelSums& Estimator::kernel_sums(const Candidate& c) {
  Activations& units = activations(c);
  const auto [entry, is_new] = units.kernel_sums.try_emplace(c.adam_threads);
  if (is_new) {
    KernelSums sums(tables_.at(c.adam_threads).dual_bounds.size());
    for (const PowerDraw& kernel : units.kernels) {
      sums = with_kernel(std::move(sums), kernel, c.adam_threads);
    }
    entry->second = std::move(sums);
  }
  return entry->second;
}

const Estimator::UnitKernelSums& Estimator::unit_kernel_sums(const Candidate& c) {
  Activations& units = activations(c);
  const auto [entry, is_new] = units.unit_kernel_sums.try_emplace(c.adam_threads);
  UnitKernelSums& sums = entry->second;
  if (!is_new) return sums;
  const KernelSums none(tables_.at(c.adam_threads).dual_bounds.size());
  sums.forward_from.resize(units.forward.size());
  for (std::size_t unit = units.forward.size(); unit-- > 0;) {
    const bool is_last = unit + 1 == units.forward.size();
    sums.forward_from[unit] = with_kernel(is_last ? none : sums.forward_from[unit + 1],
                                          units.forward[unit], c.adam_threads);
  }
  const auto below = [&](const std::vector<PowerDraw>& by_unit) {
    std::vector<KernelSums> prefixes{none};
    for (const PowerDraw& kernel : by_unit) {
      prefixes.push_back(with_kernel(prefixes.back(), kernel, c.adam_threads));
    }
    return prefixes;
  };
  sums.recompute_below = below(units.recomputed);
  sums.backward_below = below(units.backward);
  for (std::size_t u = 0; u < sums.backward_below.size(); ++u) {
    std::ranges::transform(sums.backward_below[u], sums.recompute_below[u],
                           sums.backward_below[u].begin(), std::plus());
  }
  return sums;
}

int Estimator::update_barrier_unit(const Candidate& c) const {
  const int first = std::max(c.leading_gpu_optimizer, c.gpu_adam_units);
  const int end = num_units_ - std::max(c.trailing_gpu_optimizer, c.trailing_nvme_optimizer);
  const auto is_updated = [&](int unit) { return may_be_off_gpu(c, unit); };
  // As gradients arrive, the first unit is updated last; after backward or a norm, the last unit.
  if (problem_.request.clipping == Clipping::None && c.snapshot != Snapshot::Redo) {
    for (int unit = std::max(first, c.late_updates); unit < end; ++unit) {
      if (is_updated(unit)) return unit;
    }
  }
  for (int unit = end; unit-- > first;) {
    if (is_updated(unit)) return unit;
  }
  return -1;
}

int Estimator::last_gradient_unit(const Candidate& c, int barrier) const {
  if (barrier >= c.late_updates) return barrier;
  return static_cast<int>(first_off_gpu(c, std::max(c.leading_gpu_optimizer, c.gpu_adam_units)));
}

std::size_t Estimator::first_with_parameters(int from) const {
  auto unit = static_cast<std::size_t>(from);
  while (problem_.profile.architecture.units[unit].parameters.empty()) ++unit;
  return unit;
}

bool Estimator::may_be_off_gpu(const Candidate& c, int unit) const {
  const Unit& described = problem_.profile.architecture.units[static_cast<std::size_t>(unit)];
  return !described.parameters.empty() &&
         !(c.attention_on_gpu && is_attention(described.unit_class));
}

std::size_t Estimator::first_off_gpu(const Candidate& c, int from) const {
  while (!may_be_off_gpu(c, from)) ++from;
  return static_cast<std::size_t>(from);
}

/// Cycle from one norm to the next. The CPU's updates follow the norm in the order of the next
/// forward, and the last one precedes its unit's forward. Then the step still has to compute all
/// but the forward of the units before.
Seconds Estimator::norm_cycle_seconds(const Candidate& c, const LaneWork& lanes) {
  if (lanes.updates_after_norm <= 0) return 0;
  const BoundTables& tables = tables_.at(c.adam_threads);
  return cycle_seconds(c,
                       lanes.updates_after_norm * tables.least_slowdown[lane_index(Lane::CpuAdam)],
                       activations(c).forward_below.back());
}

/// Cycle of late updates, which are of the first units in the order of the next forward. The first
/// waits for its gradient or for the norm, and the last precedes its unit's forward.
Seconds Estimator::late_cycle_seconds(const Candidate& c, const LaneWork& lanes) {
  if (lanes.late <= 0) return 0;
  const BoundTables& tables = tables_.at(c.adam_threads);
  const Activations& units = activations(c);
  LagrangianBound meanwhile = units.forward_below[static_cast<std::size_t>(c.late_updates) - 1];
  if (problem_.request.clipping == Clipping::None) {
    meanwhile +=
        units.backward_below[first_off_gpu(c, std::max(c.leading_gpu_optimizer, c.gpu_adam_units))];
  }
  return cycle_seconds(c, lanes.late * tables.least_slowdown[lane_index(Lane::CpuAdam)], meanwhile);
}

/// Cycle of state that streams through the device after backward, first units first, and before the
/// next forward. Nothing is read before the backward of the first of them. Meanwhile the device
/// computes at most the backward of the units before.
Seconds Estimator::stream_cycle_seconds(const Candidate& c, const LaneWork& lanes) {
  if (lanes.streamed <= 0) return 0;
  const auto& least = tables_.at(c.adam_threads).least_slowdown;
  return cycle_seconds(c, lanes.streamed * least[lane_index(Lane::H2D)],
                       activations(c).backward_below[first_off_gpu(c, c.leading_gpu_optimizer)]);
}

/// Length of a cycle on which all phases of units but `meanwhile`, of each member of a group,
/// follow `updates`. The energy of all phases counts.
Seconds Estimator::cycle_seconds(const Candidate& c, Seconds updates,
                                 const LagrangianBound& meanwhile) {
  const LagrangianBound& all = activations(c).compute;
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  const auto group = static_cast<double>(c.batch.group);
  const double least = tables_.at(c.adam_threads).least_slowdown[lane_index(Lane::Compute)];
  Seconds most = 0;
  for (std::size_t multiplier = 0; multiplier < kEnergyMultipliers.size(); ++multiplier) {
    if (!terms_.has_multiplier(multiplier)) continue;
    const Seconds computes = accumulation * all.at[multiplier] -
                             group * (meanwhile.at[multiplier] - meanwhile.energy(multiplier));
    most = std::max(most, (1 - kEnergyMultipliers[multiplier]) * updates + least * computes);
  }
  return most;
}

}  // namespace athanor
