// SPDX-License-Identifier: Apache-2.0
// Placement of the units of each class, and the bytes that they take.
#include "sim/lowering/snapshot_memory.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/search/estimate.hpp"

#include <algorithm>
#include <cstddef>

namespace athanor {

Estimator::ParameterHomes Estimator::parameter_homes(const Candidate& c,
                                                     const UnitClass& unit_class, int end) const {
  const int last = std::min(end, num_units_ - c.trailing_gpu_parameters);
  ParameterHomes homes;
  homes.host = unit_class.members(c.leading_gpu_parameters, last);
  homes.device = unit_class.members(0, end) - homes.host;
  if (c.nvme_parameters) {
    const int first = std::max(c.leading_gpu_parameters, num_units_ - c.trailing_nvme_optimizer);
    homes.nvme = unit_class.members(first, last);
  }
  return homes;
}

Estimator::Placed Estimator::place(const Candidate& c, const UnitClass& unit_class) const {
  const int host_end = num_units_ - c.trailing_gpu_optimizer;
  const int nvme_first = num_units_ - c.trailing_nvme_optimizer;
  Placed placed;
  placed.host_optimizer = unit_class.members(c.leading_gpu_optimizer, host_end);
  placed.device_optimizer = unit_class.units - placed.host_optimizer;
  placed.nvme_optimizer =
      unit_class.members(std::max(c.leading_gpu_optimizer, nvme_first), host_end);
  placed.streamed_optimizer = unit_class.members(c.leading_gpu_optimizer, c.gpu_adam_units);
  placed.late_optimizer = unit_class.members(std::max(c.leading_gpu_optimizer, c.gpu_adam_units),
                                             std::min({c.late_updates, host_end, nvme_first}));
  placed.parameters = parameter_homes(c, unit_class, num_units_);
  // Units whose update waits for the norm, or for backward.
  const int updated_late =
      problem_.request.clipping != Clipping::None ? num_units_ : c.late_updates;
  if (c.nvme_parameters && c.batch.accumulation == 1) {
    placed.nvme_gradients =
        unit_class.members(std::max(c.leading_gpu_parameters, nvme_first),
                           std::min(updated_late, num_units_ - c.trailing_gpu_parameters));
  }
  if (c.batch.accumulation > 1) return placed;
  placed.staged_gradients = placed.parameters.nvme;
  if (c.gradient_ring > 0 && problem_.request.clipping == Clipping::None &&
      c.snapshot != Snapshot::Redo) {
    const int first_early = std::max({c.leading_gpu_optimizer, c.gpu_adam_units, c.late_updates});
    placed.staged_gradients = unit_class.members(first_early, host_end) + placed.nvme_gradients;
  }
  return placed;
}

int Estimator::gradient_buffers(const Candidate& c, const UnitClass& unit_class) {
  const std::int64_t most = unit_class.units + (c.batch.group - 1) * unit_class.lent;
  return static_cast<int>(std::min<std::int64_t>(c.gradient_buffers, most));
}

TierBytes Estimator::peak_bytes(const Candidate& candidate) {
  TierBytes peak = placed_bytes(candidate);
  const ActivationBytes& bytes = activation_bytes(candidate);
  peak.gpu = device_blocks(peak.gpu) + problem_.profile.workspace_bytes + bytes.peak +
             bytes.graphs * candidate.batch.num_groups();
  peak.pinned += bytes.pinned;
  return peak;
}

/// Searches ask for many activation policies of each placement, in any order.
const TierBytes& Estimator::placed_bytes(const Candidate& candidate) {
  Candidate key = candidate;
  key.recompute_units = key.offload_units = key.prefetch_depth = key.adam_threads = 0;
  const auto hash = static_cast<std::size_t>(key.leading_gpu_parameters +
                                             (num_units_ + 1) * key.leading_gpu_optimizer) *
                        2 +
                    (key.gpu_adam_units > 0 ? 1 : 0);
  PlacedBytes& known = placed_bytes_[hash % placed_bytes_.size()];
  if (known.key != key) known = {key, sum_placed_bytes(key)};
  return known.bytes;
}

TierBytes Estimator::sum_placed_bytes(const Candidate& candidate) const {
  const DataType dtype = problem_.profile.dtype;
  const Bytes parameter = size_of(dtype);
  const Bytes gradient = size_of(gradient_dtype(dtype, candidate.batch.accumulation));
  TierBytes peak = state_bytes(candidate);
  for (const UnitClass& unit_class : classes_) {
    const Candidate c = for_class(candidate, unit_class);
    const Placed placed = place(c, unit_class);
    const bool sharded = c.sharding == Sharding::Sharded;
    const Bytes whole = unit_class.elements;
    const Bytes owned =
        c.sharding == Sharding::Replicated ? whole : whole / problem_.request.num_gpus;
    const int slots = sharded ? std::min(c.cache_slots, unit_class.units) : unit_class.units;
    peak.gpu += (slots + gradient_buffers(c, unit_class)) * whole * parameter;
    peak.gpu += accumulators(c, placed) * owned * gradient;
    if (sharded) peak.gpu += placed.parameters.device * owned * parameter;
    peak.gpu +=
        placed.device_optimizer *
        (owned * gradient + optimizer_state_bytes(owned, dtype, problem_.request.adam_state));
    const int versions = keeps_versions(c.snapshot) ? kKeptVersions : 1;
    peak.pinned += placed.host_optimizer * owned * (versions * parameter + gradient);
    peak.pinned -= placed.parameters.nvme * owned * parameter;
    peak.pinned -= placed.staged_gradients * owned * gradient;
  }
  return peak;
}

Bytes Estimator::snapshot_bytes(const Candidate& c) const {
  Plan plan;
  plan.snapshot = c.snapshot;
  if (plan.snapshot == Snapshot::None) return 0;
  plan.world_size = problem_.request.num_gpus;
  plan.accumulation = c.batch.accumulation;
  plan.snapshot_copies = problem_.request.snapshot_copies;
  const std::int64_t whole =
      round_up(c.chunk_elements, plan.world_size * shard_multiple(problem_.request.adam_state));
  const int parts = c.sharding == Sharding::Replicated ? 1 : plan.world_size;
  std::int64_t blocks = 0, chunks = 0;
  for (const UnitClass& unit_class : classes_) {
    for (std::int64_t left = unit_class.elements; left > 0; left -= whole) {
      blocks += unit_class.units * redo_blocks(std::min(whole, left) / parts);
      chunks += unit_class.units;
    }
  }
  return snapshot_log_size(plan, blocks, chunks).all();
}

/// Bytes in host memory of other versions of state: those that updates leave as they were, and
/// those of a ward.
Bytes Estimator::kept_state_bytes(const Candidate& c, const UnitClass& unit_class,
                                  const Placed& placed, const Program& types) const {
  const int parts = c.sharding == Sharding::Replicated ? 1 : problem_.request.num_gpus;
  const std::int64_t elements = unit_class.elements / parts;
  const Bytes owned = optimizer_state_bytes(elements, types.dtype, types.adam_state);
  if (keeps_versions(c.snapshot)) {
    const Bytes copied = copies_to_peer(for_class(c, unit_class))
                             ? kKeptVersions * version_bytes(elements, types)
                             : 0;
    return placed.cpu_optimizer() * owned + placed.with_versions(c.snapshot) * copied;
  }
  if (!c.speculate) return 0;
  return placed.early_optimizer() * (owned + elements * size_of(types.dtype));
}

/// Device memory through which a ward's versions come.
Bytes Estimator::receive_buffer_bytes(const Candidate& c, const Program& types) const {
  const SnapshotSend send = problem_.request.snapshot_send;
  if (send == SnapshotSend::Direct) return 0;
  const std::int64_t cut = problem_.request.num_gpus * shard_multiple(problem_.request.adam_state);
  const std::int64_t whole = round_up(c.chunk_elements, cut);
  const int parts = c.sharding == Sharding::Replicated ? 1 : problem_.request.num_gpus;
  SentChunks sent;
  for (const UnitClass& unit_class : classes_) {
    const Candidate of_class = for_class(c, unit_class);
    const int units = place(of_class, unit_class).with_versions(c.snapshot);
    if (units == 0 || !copies_to_peer(of_class)) continue;
    for (std::int64_t left = unit_class.elements; left > 0; left -= whole) {
      sent.add(units, version_bytes(std::min(whole, left) / parts, types));
    }
  }
  return receive_bytes(send, sent);
}

/// Bytes of optimizer state in host memory and in files, and of the buffers that it passes through.
TierBytes Estimator::state_bytes(const Candidate& c) const {
  const std::int64_t cut = problem_.request.num_gpus * shard_multiple(problem_.request.adam_state);
  const std::int64_t whole = round_up(c.chunk_elements, cut);
  const int parts = c.sharding == Sharding::Replicated ? 1 : problem_.request.num_gpus;
  TierBytes bytes;
  Program types;
  types.dtype = problem_.profile.dtype;
  types.adam_state = problem_.request.adam_state;
  types.gradient_dtype = gradient_dtype(problem_.profile.dtype, c.batch.accumulation);
  std::int64_t in_files = 0, parameters_in_files = 0, staged = 0, streamed = 0;  // chunks
  Bytes file_buffer = 0, parameter_buffer = 0, staged_gradient = 0, stream_buffer = 0;
  for (const UnitClass& unit_class : classes_) {
    const Placed placed = place(for_class(c, unit_class), unit_class);
    const std::int64_t elements_owned = unit_class.elements / parts;
    const Bytes owned = optimizer_state_bytes(elements_owned, types.dtype, types.adam_state);
    bytes.host += placed.cpu_optimizer() * owned;
    bytes.host += kept_state_bytes(c, unit_class, placed, types);
    bytes.pinned += placed.streamed_optimizer * owned;
    if (c.snapshot == Snapshot::Copy) {
      bytes.pinned +=
          placed.device_optimizer * kKeptVersions * version_bytes(elements_owned, types);
    }
    if (placed.nvme_optimizer + placed.streamed_optimizer + placed.staged_gradients == 0) continue;
    for (std::int64_t left = unit_class.elements; left > 0; left -= whole) {
      const std::int64_t elements = std::min(whole, left) / parts;
      if (placed.nvme_optimizer > 0) {
        const FileBytes file =
            file_bytes(elements, {placed.parameters.nvme > 0, placed.nvme_gradients > 0}, types);
        bytes.nvme += placed.nvme_optimizer * file.state +
                      placed.parameters.nvme * file.parameters +
                      placed.nvme_gradients * file.gradient;
        file_buffer = std::max(file_buffer, file.all());
        in_files += placed.nvme_optimizer;
        parameter_buffer = std::max(parameter_buffer, file.parameters);
        parameters_in_files += placed.parameters.nvme;
      }
      if (placed.staged_gradients > 0) {
        staged_gradient =
            std::max(staged_gradient, file_blocks(elements * size_of(types.gradient_dtype)));
        staged += placed.staged_gradients;
      }
      if (placed.streamed_optimizer > 0) {
        stream_buffer = std::max(stream_buffer, stream_bytes(elements, types).read);
        streamed += placed.streamed_optimizer;
      }
    }
  }
  bytes.host += std::min<std::int64_t>(in_files, Plan().nvme_buffers) * file_buffer;
  bytes.pinned +=
      std::min<std::int64_t>(parameters_in_files, Plan().parameter_buffers) * parameter_buffer;
  bytes.pinned += snapshot_bytes(c);
  bytes.gpu += receive_buffer_bytes(c, types);
  Plan rings;
  rings.gradient_ring = c.gradient_ring;
  rings.clipping = problem_.request.clipping;
  bytes.pinned += std::min<std::int64_t>(staged, most_staged_gradients(rings)) * staged_gradient;
  bytes.gpu += std::min<std::int64_t>(streamed, Plan().stream_buffers) * stream_buffer;
  return bytes;
}

}  // namespace athanor
