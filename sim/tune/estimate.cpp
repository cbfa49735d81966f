// SPDX-License-Identifier: Apache-2.0
#include "sim/tune/estimate.hpp"

#include "sim/model/chunk_layout.hpp"
#include "sim/model/costs.hpp"
#include "sim/model/lowering.hpp"
#include "sim/model/memory.hpp"
#include "sim/model/static_memory.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <numeric>
#include <string>

namespace athanor {
namespace {

/// Units that are filled into `slots` in a step, at least: all in the first pass over them, and in
/// every later pass those for which there was no slot at its start.
std::int64_t least_fills(int units, int slots, std::int64_t accumulation) {
  return units + (2 * accumulation - 1) * std::max(0, units - slots);
}

Operation chunk_operation(const ChunkWork& work, const Chunk& chunk, Sharding sharding,
                          const Program& header) {
  Operation op;
  op.kind = work.kind;
  op.lane = work.lane;
  op.accumulate = work.accumulate;
  op.speculative = work.speculative;
  op.all_reduce = sharding == Sharding::Replicated;
  op.elements = owned_elements(chunk, sharding, header.world_size);
  const bool whole = op.kind == OpKind::Gather || op.kind == OpKind::Reduce;
  const bool gradient = op.kind == OpKind::GradD2H || op.kind == OpKind::GradWrite;
  const DataType dtype = gradient ? header.gradient_dtype : header.dtype;
  op.bytes = (whole ? chunk.elements : op.elements) * size_of(dtype);
  if (op.kind == OpKind::StateRead || op.kind == OpKind::StateWrite) {
    op.bytes = state_copy_bytes(op.lane, op.elements, work.in_file, header);
  }
  const bool through_file = op.kind == OpKind::ParamRead || op.kind == OpKind::GradWrite;
  if (through_file) op.bytes = file_blocks(op.bytes);
  return op;
}

}  // namespace

/// What the lanes of one rank have to do.
struct Estimator::Load {
  LaneSeconds busy{};
  std::array<std::int64_t, kNumLanes> operations{};
  Seconds after_norm = 0;  ///< of the CPU, between the norm and the next forward
  Seconds late = 0;        ///< of that, of leading units alone
  Seconds streamed = 0;    ///< reads of state that streams through the device

  void add(Lane lane, const ChunkSum& unit, std::int64_t times) {
    busy[static_cast<std::size_t>(lane)] += static_cast<double>(times) * unit.seconds;
    operations[static_cast<std::size_t>(lane)] += times * unit.operations;
  }
};

Estimator::Estimator(const Profile& profile, const Platform& platform, const PlanRequest& request)
    : profile_(profile),
      platform_(platform),
      request_(request),
      slowdowns_(platform, request.num_gpus),
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

const Estimator::Activations& Estimator::activations(const Candidate& c) {
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
  result.forward_below.assign(static_cast<std::size_t>(num_units_) + 1, 0);
  result.backward_below = result.forward_below;
  for (const Operation& op : program.operations) {
    const bool is_copy = op.kind == OpKind::OutputD2H || op.kind == OpKind::OutputH2D;
    if (!is_unit_phase(op) && !is_copy) continue;
    const auto lane = static_cast<std::size_t>(op.lane);
    const PoweredSeconds powered = powered_seconds(op, program, platform_);
    result.compute += powered;
    if (is_unit_phase(op)) {
      auto& below = op.kind == OpKind::Forward ? result.forward_below : result.backward_below;
      below[static_cast<std::size_t>(op.unit) + 1] += powered.full_clock();
    }
    result.issue_seconds += launch_slowdown(program, platform_) * op.issue_seconds;
    ++result.operations[lane];
    if (is_copy) result.copies[lane] += solo_seconds(op, program, platform_);
  }
  for (auto* below : {&result.forward_below, &result.backward_below}) {
    std::partial_sum(below->begin(), below->end(), below->begin());
  }
  return result;
}

const Estimator::ChunkSum& Estimator::chunk_sum(const Candidate& candidate, std::size_t unit_class,
                                                const ChunkWork& work) {
  const DataType gradient = gradient_dtype(profile_.dtype, candidate.batch.accumulation);
  const auto [entry, is_new] =
      chunk_sums_.try_emplace({unit_class, candidate.chunk_elements, candidate.sharding, work,
                               gradient, candidate.adam_threads});
  ChunkSum& sum = entry->second;
  if (!is_new) return sum;
  Program header;
  header.world_size = request_.num_gpus;
  header.dtype = profile_.dtype;
  header.gradient_dtype = gradient;
  header.cpu_adam_threads = candidate.adam_threads;
  header.clipped_share = request_.clipped_share;
  const std::int64_t whole =
      round_up(candidate.chunk_elements, request_.num_gpus * kParameterAlignment);
  for (std::int64_t rest = classes_[unit_class].elements; rest > 0; rest -= whole) {
    const Chunk chunk{.elements = std::min(whole, rest)};
    const Operation op = chunk_operation(work, chunk, candidate.sharding, header);
    sum.seconds += solo_seconds(op, header, platform_);
    ++sum.operations;
  }
  return sum;
}

Seconds Estimator::bound_seconds(const Candidate& c) { return bound_seconds(c, load_of(c)); }

double Estimator::cpu_adam_share(const Candidate& c) {
  const Load load = load_of(c);
  const Seconds updates = load.busy[static_cast<std::size_t>(Lane::CpuAdam)];
  return updates > 0 ? updates / bound_seconds(c, load) : 0;
}

Estimator::Load Estimator::load_of(const Candidate& c) {
  Load load;
  for (std::size_t i = 0; i < classes_.size(); ++i) {
    if (classes_[i].units > 0) add_class(c, i, load);
  }
  add_scalars(c, load);
  const Activations& units = activations(c);
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  constexpr auto kCompute = static_cast<std::size_t>(Lane::Compute);
  load.busy[kCompute] += accumulation * units.compute.full_clock();
  for (std::size_t lane = 0; lane < load.busy.size(); ++lane) {
    load.busy[lane] += accumulation * units.copies[lane];
    load.operations[lane] += c.batch.accumulation * units.operations[lane];
  }
  return load;
}

Seconds Estimator::bound_seconds(const Candidate& c, const Load& load) {
  const Activations& units = activations(c);
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  constexpr auto kCompute = static_cast<std::size_t>(Lane::Compute);
  const Slowdowns& slowdowns = slowdowns_.at(c.adam_threads);
  const Seconds limited = accumulation * units.compute.most() * slowdowns.least[kCompute];
  Seconds issue = accumulation * units.issue_seconds;
  for (const auto& [lane, seconds] : platform_.issue) {
    issue += static_cast<double>(load.operations[static_cast<std::size_t>(lane)]) * seconds;
  }
  return std::max({issue, limited, norm_cycle_seconds(c, load), stream_cycle_seconds(c, load),
                   busiest_seconds(load.busy, slowdowns)});
}

/// From one norm to the next: the CPU's updates come after it in the order of the next forward, and
/// the last of them before its unit's forward. What the step still has to compute then is all but
/// the forward of units before. The same holds of late updates, which are of the first units.
Seconds Estimator::norm_cycle_seconds(const Candidate& c, const Load& load) {
  if (load.after_norm <= 0) return 0;
  const Activations& units = activations(c);
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  const auto& least = slowdowns_.at(c.adam_threads).least;
  const auto cycle = [&](Seconds updates, int last) {
    const Seconds before = units.forward_below[static_cast<std::size_t>(last)];
    return updates * least[static_cast<std::size_t>(Lane::CpuAdam)] +
           (accumulation * units.compute.full_clock() - before) *
               least[static_cast<std::size_t>(Lane::Compute)];
  };
  const Seconds late = load.late > 0 ? cycle(load.late, c.late_updates - 1) : 0;
  return std::max(cycle(load.after_norm, num_units_), late);
}

/// The device updates what streams through it after backward, first units first, and before the
/// next forward: nothing is read before backward of the first of them, beside which the device
/// computes no more than backward of units before.
Seconds Estimator::stream_cycle_seconds(const Candidate& c, const Load& load) {
  if (load.streamed <= 0) return 0;
  const Activations& units = activations(c);
  auto first = static_cast<std::size_t>(c.leading_gpu_optimizer);
  while (profile_.architecture.units[first].parameters.empty()) ++first;
  const auto accumulation = static_cast<double>(c.batch.accumulation);
  const auto& least = slowdowns_.at(c.adam_threads).least;
  const auto slowdown = [&](Lane lane) { return least[static_cast<std::size_t>(lane)]; };
  return load.streamed * slowdown(Lane::H2D) +
         (accumulation * units.compute.full_clock() - units.backward_below[first]) *
             slowdown(Lane::Compute);
}

void Estimator::add_class(const Candidate& c, std::size_t unit_class, Load& load) {
  const Placed placed = place(c, classes_[unit_class]);
  if (c.sharding == Sharding::Sharded) add_fetches(c, unit_class, placed, load);
  add_updates(c, unit_class, placed, load);
}

void Estimator::add_fetches(const Candidate& c, std::size_t unit_class, const Placed& placed,
                            Load& load) {
  const int units = classes_[unit_class].units;
  const int slots = std::min(c.cache_slots, units);
  // A single rank's shard on the host is the whole chunk: nothing is gathered.
  const int gathered = request_.num_gpus > 1 ? units : placed.device_parameters;
  const std::int64_t accumulation = c.batch.accumulation;
  if (placed.host_parameters > 0) {
    load.add(Lane::H2D, chunk_sum(c, unit_class, {OpKind::Fetch, Lane::H2D}),
             least_fills(placed.host_parameters, slots, accumulation));
  }
  if (placed.nvme_parameters > 0) {
    load.add(Lane::NvmeRead, chunk_sum(c, unit_class, {OpKind::ParamRead, Lane::NvmeRead}),
             least_fills(placed.nvme_parameters, slots, accumulation));
  }
  if (gathered > 0) {
    load.add(Lane::Collective, chunk_sum(c, unit_class, {OpKind::Gather, Lane::Collective}),
             least_fills(gathered, slots, accumulation));
  }
}

void Estimator::add_updates(const Candidate& c, std::size_t unit_class, const Placed& placed,
                            Load& load) {
  const auto add_work = [&](const ChunkWork& work, std::int64_t times) {
    if (times > 0) load.add(work.lane, chunk_sum(c, unit_class, work), times);
  };
  const auto add = [&](OpKind kind, Lane lane, std::int64_t times) {
    add_work({kind, lane}, times);
  };
  const bool several = request_.num_gpus > 1;
  const int units = classes_[unit_class].units;
  const int reduced = several ? units : placed.device_optimizer;
  add(OpKind::Reduce, Lane::Collective, c.batch.accumulation * reduced);
  add(OpKind::GradD2H, Lane::D2H, placed.host_optimizer);
  add_work({.kind = OpKind::GradD2H, .lane = Lane::D2H, .accumulate = true},
           (c.batch.accumulation - 1) * placed.host_optimizer);
  const int ahead = c.speculate ? placed.early_optimizer() : 0;
  const int on_cpu = placed.host_optimizer - placed.streamed_optimizer;
  add(OpKind::Adam, Lane::Compute, placed.device_optimizer + placed.streamed_optimizer);
  add_work({.kind = OpKind::Adam, .lane = Lane::CpuAdam, .speculative = true}, ahead);
  add(OpKind::Adam, Lane::CpuAdam, on_cpu - ahead);
  if (request_.clipping != Clipping::None) {
    const Lane of_host = c.batch.accumulation > 1 ? Lane::CpuAdam
                         : several                ? Lane::Collective
                                                  : Lane::Compute;
    add(OpKind::SquareSum, Lane::Compute, placed.device_optimizer);
    add(OpKind::SquareSum, of_host, placed.host_optimizer);
    const auto seconds = [&](OpKind kind, std::int64_t times) {
      if (times == 0) return Seconds{0};
      return static_cast<double>(times) * chunk_sum(c, unit_class, {kind, Lane::CpuAdam}).seconds;
    };
    add(OpKind::Redo, Lane::CpuAdam, ahead);
    load.after_norm += seconds(OpKind::Redo, ahead) + seconds(OpKind::Adam, on_cpu - ahead);
    load.late += seconds(OpKind::Adam, placed.late_optimizer);
  }
  for (const auto& [kind, lane] : {std::pair{OpKind::StateRead, Lane::NvmeRead},
                                   std::pair{OpKind::StateWrite, Lane::NvmeWrite}}) {
    add(kind, lane, placed.nvme_optimizer - placed.nvme_parameters);
    add_work({.kind = kind, .lane = lane, .in_file = {.parameters = true}},
             placed.nvme_parameters - placed.nvme_gradients);
    add_work({.kind = kind, .lane = lane, .in_file = {.parameters = true, .gradient = true}},
             placed.nvme_gradients);
  }
  add(OpKind::GradWrite, Lane::NvmeWrite, placed.nvme_gradients);
  add(OpKind::StateRead, Lane::H2D, placed.streamed_optimizer);
  if (placed.streamed_optimizer > 0) {
    load.streamed += placed.streamed_optimizer *
                     chunk_sum(c, unit_class, {OpKind::StateRead, Lane::H2D}).seconds;
  }
  add(OpKind::StateWrite, Lane::D2H, placed.streamed_optimizer);
  add(OpKind::ParamH2D, Lane::H2D, placed.device_parameters - placed.device_optimizer);
  if (several && c.sharding == Sharding::OptimizerSharded) {
    add(OpKind::Gather, Lane::Collective, units);
  }
}

/// The loss and the norm, one small collective each.
void Estimator::add_scalars(const Candidate& c, Load& load) const {
  Program header;
  header.world_size = request_.num_gpus;
  const auto add = [&](OpKind kind, Bytes bytes) {
    Operation op;
    op.kind = kind;
    op.lane = Lane::Collective;
    op.bytes = header.world_size * bytes;
    load.add(op.lane, {solo_seconds(op, header, platform_), 1}, 1);
  };
  add(OpKind::Loss, c.batch.accumulation * Bytes{sizeof(double)});
  if (request_.clipping != Clipping::None) add(OpKind::Norm, 2 * Bytes{sizeof(double)});
}

}  // namespace athanor
