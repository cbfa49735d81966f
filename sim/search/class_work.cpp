// SPDX-License-Identifier: Apache-2.0
// The work that units of one class add to the lanes of a step.
#include "sim/search/lane_work.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace athanor {

void Estimator::ClassWork::add(const ChunkWork& work, const LaneWork::Times& times) {
  if (times.all() == 0 || (level <= SearchLevel::Group && work.lane == Lane::CpuAdam)) return;
  lanes.add(work.lane, work.accumulate, sum(work), times);
}

Estimator::ChunkSum Estimator::ClassWork::sum(const ChunkWork& work) {
  auto& known = sums[unit_class];
  const auto found = std::ranges::find(
      known, work, [](const auto& entry) -> const ChunkWork& { return entry.first; });
  if (found != known.end()) return found->second;
  return known.emplace_back(work, estimator.chunk_sum(candidate, unit_class, work)).second;
}

void Estimator::ClassWork::add_fetches() {
  const int slots = std::min(candidate.cache_slots, units);
  // A single rank's shard on the host is the whole chunk: nothing is gathered.
  const auto gathered = [&](const ParameterHomes& homes) {
    return homes.device + (several ? homes.host : 0);
  };
  const ParameterHomes& all = placed.parameters;
  const ParameterHomes below = estimator.parameter_homes(candidate, estimator.classes_[unit_class],
                                                         std::max(0, lanes.update_barrier_unit));
  const std::int64_t groups = candidate.batch.num_groups();
  add({OpKind::Fetch, Lane::H2D}, LaneWork::fills(all.host, below.host, slots, groups));
  add({OpKind::Gather, Lane::Collective},
      LaneWork::fills(gathered(all), gathered(below), slots, groups));
  // Reads have their own buffers, through which they run ahead of slots but not of updates.
  LaneWork::Times reads = LaneWork::fills(all.nvme, below.nvme, slots, groups);
  reads = {.before_barrier = below.nvme,
           .step_boundary = all.nvme - below.nvme,
           .anywhere = reads.all() - all.nvme};
  add({OpKind::ParamRead, Lane::NvmeRead}, reads);
}

void Estimator::ClassWork::add_gradients() {
  const int buffers = gradient_buffers(candidate, estimator.classes_[unit_class]);
  const bool on_device = candidate.batch.group > 1;  // gradients are added up
  if (buffers == 1 && units > 1 && !on_device) add_drains();
  const auto drains = [&](int drained, std::int64_t times) {
    return LaneWork::drains(drained, buffers, times);
  };
  const int reduced = several ? units : placed.device_optimizer;
  const std::int64_t group = candidate.batch.group;
  const std::int64_t before_last = candidate.batch.accumulation - group;
  LaneWork::Times reduces = drains(reduced, before_last);
  // Units with state on the device are among them.
  reduces.inner_backward = std::exchange(reduces.inner_drains, 0);
  add({OpKind::Reduce, Lane::Collective}, reduces);
  add({OpKind::Reduce, Lane::Collective}, {.before_norm = group * reduced});
  ChunkWork first{.kind = OpKind::GradD2H, .lane = Lane::D2H};
  if (on_device) first = {OpKind::GradAdd, several ? Lane::Collective : Lane::Compute};
  ChunkWork later = first;
  later.accumulate = true;
  if (on_device) add_sums();
  // A single micro-batch's gradients may still go to the host when their norm is known.
  if (candidate.batch.accumulation == 1)
    return add(first, {.before_barrier = placed.host_optimizer});
  const auto last_drains = [&](std::int64_t times) {
    return LaneWork::last_drains_of(placed.host_optimizer, buffers, times);
  };
  if (before_last == 0) {
    add(first, last_drains(1));
    return add(later, last_drains(group - 1));
  }
  add(first, drains(placed.host_optimizer, 1));
  add(later, drains(placed.host_optimizer, before_last - 1));
  add(later, last_drains(group));
}

/// Adds copies of sums that the device adds up for each group, to the host and back for the next.
void Estimator::ClassWork::add_sums() {
  const int summed = placed.host_optimizer;
  const std::int64_t before_last = candidate.batch.num_groups() - 1;
  const ChunkWork copied{OpKind::GradD2H, Lane::D2H};
  const int accumulators = Estimator::accumulators(candidate, placed);
  add(copied, LaneWork::drains(summed, accumulators, before_last));
  add(copied, LaneWork::last_drains_of(summed, accumulators, 1));
  add({OpKind::GradH2D, Lane::H2D}, {.anywhere = before_last * summed});
}

/// Adds copies of gradients that leave the only buffer. Backward of a unit waits for the copy of
/// the unit before. Meanwhile the device can only recompute, if no unit of another class is
/// between.
void Estimator::ClassWork::add_drains() {
  const std::vector<int>& before = estimator.classes_[unit_class].units_before;
  const int host_end = estimator.num_units_ - candidate.trailing_gpu_optimizer;
  int drained = 0;
  for (int unit = std::max(1, candidate.leading_gpu_optimizer); unit < host_end; ++unit) {
    const auto u = static_cast<std::size_t>(unit);
    drained += before[u + 1] - before[u - 1] == 2 ? 1 : 0;
  }
  const auto copies = [&](bool accumulate) {
    return drained *
           sum({.kind = OpKind::GradD2H, .lane = Lane::D2H, .accumulate = accumulate}).seconds;
  };
  if (drained == 0) return;
  lanes.first_drains += copies(false);
  if (candidate.batch.accumulation > 1) lanes.later_drains += copies(true);
}

/// Adds what follows the last backward with a gradient for the host, and the CPU's last update.
void Estimator::ClassWork::add_tails() {
  const bool has_some = placed.host_optimizer > 0;
  if (has_some && candidate.batch.accumulation > 1 &&
      has(estimator.first_off_gpu(candidate, candidate.leading_gpu_optimizer))) {
    lanes.last_copied =
        sum({.kind = OpKind::GradD2H, .lane = Lane::D2H, .accumulate = candidate.batch.group == 1})
            .seconds;
    lanes.last_squared = sum({OpKind::SquareSum, Lane::CpuAdam}).last;
  }
  if (has(static_cast<std::size_t>(lanes.update_barrier_unit))) {
    lanes.last_fetched = sum({OpKind::ParamH2D, Lane::H2D}).last;
  }
}

void Estimator::ClassWork::add_adam() {
  const int ahead = candidate.speculate ? placed.early_optimizer() : 0;
  const int beside_state = placed.cpu_optimizer() - ahead;
  add({OpKind::Adam, Lane::Compute},
      {.after_norm = placed.device_optimizer + placed.streamed_optimizer});
  const ChunkWork adam{
      .kind = OpKind::Adam, .lane = Lane::CpuAdam, .beside = keeps_versions(candidate.snapshot)};
  const ChunkWork speculative{.kind = OpKind::Adam, .lane = Lane::CpuAdam, .beside = true};
  add(speculative, {.before_barrier = ahead});
  add(adam, {.step_boundary = placed.nvme_optimizer});
  if (candidate.snapshot == Snapshot::Copy) {
    add({OpKind::StateD2H, Lane::D2H}, {.anywhere = placed.device_optimizer});
  }
  if (estimator.copies_to_peer(candidate)) {
    const LaneWork::Times sent{.anywhere = placed.with_versions(candidate.snapshot)};
    add({OpKind::PeerCopy, Lane::Collective}, sent);
    if (estimator.problem_.request.snapshot_send != SnapshotSend::Direct) {
      add({OpKind::PeerStore, Lane::D2H}, sent);
    }
  }
  if (level == SearchLevel::Leaf) {
    add(adam, {.after_norm = beside_state});
  } else if (level == SearchLevel::Subgroup) {
    const bool either = estimator.problem_.request.clipping != Clipping::None;
    const bool is_faster = either && sum(speculative).seconds < sum(adam).seconds;
    add(is_faster ? speculative : adam, {.before_barrier = beside_state});
  }
  if (level == SearchLevel::Leaf && placed.late_optimizer > 0) {
    lanes.late += placed.late_optimizer * sum(adam).seconds;
  }
  if (estimator.problem_.request.clipping == Clipping::None) return;
  const Lane of_host = candidate.batch.accumulation > 1 ? Lane::CpuAdam
                       : several                        ? Lane::Collective
                                                        : Lane::Compute;
  add({OpKind::SquareSum, Lane::Compute}, {.before_norm = placed.device_optimizer});
  add({OpKind::SquareSum, of_host}, {.before_norm = placed.host_optimizer});
  add({OpKind::AdamRollback, Lane::CpuAdam}, {.after_norm = ahead});
  if (level != SearchLevel::Leaf) return;
  const auto seconds = [&](const ChunkWork& work, int times) {
    return times == 0 ? 0 : times * sum(work).seconds;
  };
  if (lanes.update_barrier_unit >= 0) add_tails();
  lanes.updates_after_norm += seconds({OpKind::AdamRollback, Lane::CpuAdam}, ahead) +
                              seconds(adam, beside_state + placed.nvme_optimizer);
}

/// Adds state that moves between file and CPU, or between host memory and the device.
void Estimator::ClassWork::add_state() {
  for (const auto& [kind, lane] : {std::pair{OpKind::StateRead, Lane::NvmeRead},
                                   std::pair{OpKind::StateWrite, Lane::NvmeWrite}}) {
    add({kind, lane}, {.anywhere = placed.nvme_optimizer - placed.parameters.nvme});
    add({.kind = kind, .lane = lane, .in_file = {.parameters = true}},
        {.anywhere = placed.parameters.nvme - placed.nvme_gradients});
    add({.kind = kind, .lane = lane, .in_file = {.parameters = true, .gradient = true}},
        {.anywhere = placed.nvme_gradients});
  }
  add({OpKind::GradWrite, Lane::NvmeWrite}, {.anywhere = placed.nvme_gradients});
  if (placed.streamed_optimizer == 0) return;
  add({OpKind::StateRead, Lane::H2D}, {.before_barrier = placed.streamed_optimizer});
  add({OpKind::StateWrite, Lane::D2H}, {.after_norm = placed.streamed_optimizer});
  lanes.streamed += placed.streamed_optimizer * sum({OpKind::StateRead, Lane::H2D}).seconds;
}

/// Parameters follow in the order of updates. The barrier's unit is the last, unless state comes
/// from files after a norm.
Estimator::LaneWork::Times Estimator::ClassWork::update_order(int published) const {
  return placed.nvme_optimizer == 0 ? LaneWork::Times{.after_norm = published}
                                    : LaneWork::Times{.step_boundary = published};
}

void Estimator::ClassWork::add_parameters() {
  add({OpKind::ParamH2D, Lane::H2D},
      update_order(placed.parameters.device - placed.device_optimizer));
  add_gathers();
}

void Estimator::ClassWork::add_gathers() {
  if (several && candidate.sharding == Sharding::OptimizerSharded) {
    add({OpKind::Gather, Lane::Collective}, update_order(units));
  }
}

/// First unit, from `first` on, whose gradient must have left its buffer before the backward of the
/// units below: of each class all but as many as there are buffers. Lanes are in order, so with one
/// unit's gradient those of all units above it have left. `of_host`: copies to the host, else
/// reductions. The number of units where none must.
int Estimator::ClassWork::last_drained(int first, bool of_host) const {
  int lowest = estimator.num_units_;
  for (const UnitClass& each : estimator.classes_) {
    if (each.units == 0) continue;
    const Candidate own = estimator.for_class(candidate_of_all, each);
    const int begin = of_host ? std::max(first, own.leading_gpu_optimizer) : first;
    const int end = estimator.num_units_ - (of_host ? own.trailing_gpu_optimizer : 0);
    const int drained = each.members(begin, end) - gradient_buffers(own, each);
    if (drained <= 0) continue;
    int unit = end;
    for (int found = 0; found < drained; found += each.members(unit, unit + 1)) --unit;
    lowest = std::min(lowest, unit);
  }
  return lowest;
}

/// Fills of units that had no slot when backward began, and gradients that left their buffers.
void Estimator::ClassWork::add_drained(WorkValues& drained, int first, std::int64_t groups,
                                       bool has_first) {
  const UnitClass& own = estimator.classes_[unit_class];
  const int end = estimator.num_units_;
  const auto take = [&](const ChunkWork& work, std::int64_t times) {
    if (times <= 0) return;
    drained[work_index(work.lane, work.accumulate)] +=
        static_cast<double>(times) * sum(work).seconds;
  };
  if (candidate.sharding == Sharding::Sharded) {
    const int slots = std::min(candidate.cache_slots, units);
    const int on_host =
        placed.parameters.host - estimator.parameter_homes(candidate, own, first).host;
    take({OpKind::Fetch, Lane::H2D}, groups * (on_host - slots));
    if (several) {
      take({OpKind::Gather, Lane::Collective}, groups * (own.members(first, end) - slots));
    }
  }
  const std::int64_t group = candidate.batch.group;
  if (several) {
    take({OpKind::Reduce, Lane::Collective},
         groups * group * own.members(last_drained(first, /*of_host=*/false), end));
  }
  const int host_end = end - candidate.trailing_gpu_optimizer;
  if (group == 1) {
    const int copied = own.members(
        std::max(candidate.leading_gpu_optimizer, last_drained(first, /*of_host=*/true)), host_end);
    ChunkWork copy{.kind = OpKind::GradD2H, .lane = Lane::D2H};
    if (has_first) take(copy, copied);
    copy.accumulate = true;
    take(copy, (groups - (has_first ? 1 : 0)) * copied);
    return;
  }
  const int buffers = gradient_buffers(candidate, own);
  const int host_units = own.members(std::max(first, candidate.leading_gpu_optimizer), host_end);
  take({.kind = OpKind::GradAdd,
        .lane = several ? Lane::Collective : Lane::Compute,
        .accumulate = true},
       (groups * group - (has_first ? 1 : 0)) * (host_units - buffers));
  // Sums leave accumulators for units whose additions have begun: buffers hold back the others.
  const std::int64_t held = accumulators(candidate, placed) + (buffers + group - 1) / group;
  take({OpKind::GradD2H, Lane::D2H}, groups * (host_units - held));
}

/// A unit's gradient of the last micro-batch, or the sum of a group, on its way to the host.
ChunkWork Estimator::ClassWork::grad_copy() const {
  return {.kind = OpKind::GradD2H,
          .lane = Lane::D2H,
          .accumulate = candidate.batch.accumulation > 1 && candidate.batch.group == 1};
}

/// Adds what lies between the last gradient for the CPU and the forward at the update barrier where
/// updates run as gradients arrive, or after backward.
void Estimator::ClassWork::add_update_tail() {
  LaneWork::Tail& tail = lanes.tail;
  const int barrier = lanes.update_barrier_unit;
  if (has(static_cast<std::size_t>(tail.unit))) {
    const ChunkWork copied = grad_copy();
    tail.adds = copied.accumulate;
    tail.copied = sum(copied);
    if (several) tail.reduced = sum({OpKind::Reduce, Lane::Collective});
    if (candidate.batch.group > 1) {
      tail.added = sum({.kind = OpKind::GradAdd,
                        .lane = several ? Lane::Collective : Lane::Compute,
                        .accumulate = true});
    }
    if (barrier >= candidate.late_updates) tail.updated = sum({OpKind::Adam, Lane::CpuAdam});
  }
  if (!has(static_cast<std::size_t>(barrier))) return;
  const UnitClass& own = estimator.classes_[unit_class];
  const bool on_host = candidate.sharding == Sharding::Sharded &&
                       estimator.parameter_homes(candidate, own, barrier + 1).host >
                           estimator.parameter_homes(candidate, own, barrier).host;
  tail.published = sum({on_host ? OpKind::Fetch : OpKind::ParamH2D, Lane::H2D});
  const bool gathers = candidate.sharding == Sharding::Sharded
                           ? several || !on_host
                           : several && candidate.sharding == Sharding::OptimizerSharded;
  if (gathers) tail.gathered = sum({OpKind::Gather, Lane::Collective});
}

}  // namespace athanor
