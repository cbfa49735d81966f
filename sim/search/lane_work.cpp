// SPDX-License-Identifier: Apache-2.0
#include "sim/search/lane_work.hpp"

#include "sim/cost/costs.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/memory.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace athanor {
namespace {

Operation chunk_operation(const ChunkWork& work, const Chunk& chunk, Sharding sharding,
                          const Program& header) {
  Operation op;
  op.kind = work.kind;
  op.lane = work.lane;
  op.accumulate = work.accumulate;
  op.beside = work.beside;
  op.all_reduce = sharding == Sharding::Replicated;
  op.elements = owned_elements(chunk, sharding, header.world_size);
  const bool whole = op.kind == OpKind::Gather || op.kind == OpKind::Reduce;
  const bool gradient =
      op.kind == OpKind::GradD2H || op.kind == OpKind::GradH2D || op.kind == OpKind::GradWrite;
  const DataType dtype = gradient ? header.gradient_dtype : header.dtype;
  op.bytes = (whole ? chunk.elements : op.elements) * size_of(dtype);
  if (op.kind == OpKind::StateRead || op.kind == OpKind::StateWrite) {
    op.bytes = state_copy_bytes(op.lane, op.elements, work.in_file, header);
  }
  const bool version =
      op.kind == OpKind::PeerCopy || op.kind == OpKind::PeerStore || op.kind == OpKind::StateD2H;
  if (version) op.bytes = version_bytes(op.elements, header);
  const bool through_file = op.kind == OpKind::ParamRead || op.kind == OpKind::GradWrite;
  if (through_file) op.bytes = file_blocks(op.bytes);
  return op;
}

}  // namespace

Estimator::ChunkSums& Estimator::chunk_sums(const Candidate& candidate) {
  const DataType gradient = gradient_dtype(problem_.profile.dtype, candidate.batch.accumulation);
  ChunkSums& sums =
      chunk_sums_[{candidate.chunk_elements, candidate.sharding, gradient, candidate.adam_threads}];
  sums.resize(classes_.size());
  return sums;
}

Estimator::ChunkSum Estimator::chunk_sum(const Candidate& candidate, std::size_t unit_class,
                                         const ChunkWork& work) const {
  ChunkSum sum;
  Program header;
  header.world_size = problem_.request.num_gpus;
  header.dtype = problem_.profile.dtype;
  header.gradient_dtype = gradient_dtype(problem_.profile.dtype, candidate.batch.accumulation);
  header.adam_state = problem_.request.adam_state;
  header.cpu_adam_threads = candidate.adam_threads;
  header.clipped_share = problem_.request.clipped_share;
  header.snapshot_every = problem_.request.snapshot_every;
  const std::int64_t whole =
      round_up(candidate.chunk_elements,
               problem_.request.num_gpus * shard_multiple(problem_.request.adam_state));
  for (std::int64_t left = classes_[unit_class].elements; left > 0; left -= whole) {
    const Chunk chunk{.elements = std::min(whole, left)};
    const Operation op = chunk_operation(work, chunk, candidate.sharding, header);
    sum.last = solo_seconds(op, header, problem_.platform);
    sum.seconds += sum.last;
    ++sum.operations;
  }
  return sum;
}

Estimator::LaneWork Estimator::lane_work(const Candidate& c, SearchLevel level) {
  LaneWork lanes;
  lanes.update_barrier_unit = update_barrier_unit(c);
  const bool updates_on_arrival =
      problem_.request.clipping == Clipping::None && problem_.request.snapshot == Snapshot::None;
  if (level == SearchLevel::Leaf && updates_on_arrival && lanes.update_barrier_unit >= 0) {
    lanes.tail.unit = last_gradient_unit(c, lanes.update_barrier_unit);
  }
  const int first_copied = lanes.update_barrier_unit < 0
                               ? c.leading_gpu_optimizer
                               : static_cast<int>(first_off_gpu(c, c.leading_gpu_optimizer));
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].units == 0) continue;
    const Candidate own = for_class(c, classes_[i]);
    ClassWork work{*this, c, own, level, i, place(own, classes_[i]), lanes, chunk_sums(own)};
    if (own.sharding == Sharding::Sharded) work.add_fetches();
    work.add_gradients();
    work.add_adam();
    work.add_state();
    work.add_parameters();
    if (level != SearchLevel::Leaf) continue;
    const std::int64_t inner = c.batch.num_groups() - 1;
    if (inner > 0) work.add_drained(lanes.inner_drains, c.leading_gpu_optimizer, inner, true);
    work.add_drained(lanes.last_drains, first_copied, 1, /*has_first=*/inner == 0);
    if (lanes.tail.unit < 0) continue;
    work.add_drained(lanes.tail.before, lanes.tail.unit, 1, /*has_first=*/inner == 0);
    work.add_update_tail();
  }
  add_common(c, lanes);
  return lanes;
}

Estimator::LaneWork Estimator::lane_work(const FamilyReach& reach) {
  LaneWork lanes;
  lanes.update_barrier_unit = update_barrier_unit(reach.most);
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].units == 0) continue;
    const Candidate own = for_class(reach.most, classes_[i]);
    const Placed least =
        least_of(place(for_class(reach.fewest, classes_[i]), classes_[i]), place(own, classes_[i]));
    ClassWork work{*this, reach.most, own, SearchLevel::Family, i, least, lanes, chunk_sums(own)};
    if (own.sharding == Sharding::Sharded) work.add_fetches();
    work.add_gradients();
    work.add_adam();
    work.add_state();
    work.add_gathers();
  }
  add_common(reach.most, lanes);
  return lanes;
}

/// On the GPU, `fewest` has least of each; in host memory and in files, `most`. Parameters go to
/// the GPU after updates where these are in host memory and the parameters are not: none need be.
Estimator::Placed Estimator::least_of(const Placed& fewest, const Placed& most) const {
  Placed least = most;
  least.device_optimizer = fewest.device_optimizer;
  least.parameters.device = problem_.request.num_gpus > 1
                                ? most.parameters.device  // all are gathered, whatever their home
                                : fewest.parameters.device;
  return least;
}

void Estimator::add_common(const Candidate& c, LaneWork& lanes) {
  add_scalars(c, lanes);
  const Activations& units = activations(c);
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  constexpr auto kCompute = lane_index(Lane::Compute);
  lanes.busy[kCompute] += accumulation * units.compute.unthrottled();
  for (std::size_t lane = 0; lane < kNumLanes; ++lane) {
    lanes.busy[lane] += accumulation * units.copies[lane];
    lanes.operations[lane] += c.batch.accumulation * units.operations[lane];
  }
}

/// Adds the loss, the norm and the fence, one small collective each.
void Estimator::add_scalars(const Candidate& c, LaneWork& lanes) const {
  Program header;
  header.world_size = problem_.request.num_gpus;
  header.snapshot_every = problem_.request.snapshot_every;
  const auto add = [&](OpKind kind, Bytes bytes) {
    Operation op;
    op.kind = kind;
    op.lane = Lane::Collective;
    op.bytes = header.world_size * bytes;
    lanes.add(op.lane, /*adds=*/false, {solo_seconds(op, header, problem_.platform), 1},
              {.anywhere = 1});
  };
  add(OpKind::Loss, c.batch.accumulation * Bytes{sizeof(double)});
  if (problem_.request.clipping != Clipping::None) add(OpKind::Norm, 2 * Bytes{sizeof(double)});
  if (c.snapshot == Snapshot::Redo) add(OpKind::Fence, Bytes{sizeof(double)});
  if (problem_.request.snapshot_copies > 1) {
    Operation mark;
    mark.kind = OpKind::PeerMark;
    mark.lane = Lane::Collective;
    mark.bytes = static_cast<Bytes>(sizeof(std::int64_t));
    lanes.add(mark.lane, /*adds=*/false, {solo_seconds(mark, header, problem_.platform), 1},
              {.anywhere = 1});
  }
}

}  // namespace athanor
