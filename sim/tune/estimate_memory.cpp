// SPDX-License-Identifier: Apache-2.0
// Where a candidate puts the units of each class, and the bytes that they take there.
#include "sim/model/chunk_layout.hpp"
#include "sim/model/static_memory.hpp"
#include "sim/tune/estimate.hpp"

#include <algorithm>
#include <cstddef>

namespace athanor {
namespace {

/// Members below `leading` and from `num_units - trailing` on.
int covered(const std::vector<int>& units_before, int leading, int trailing) {
  const int num_units = static_cast<int>(units_before.size()) - 1;
  if (leading + trailing >= num_units) return units_before.back();
  return units_before[static_cast<std::size_t>(leading)] + units_before.back() -
         units_before[static_cast<std::size_t>(num_units - trailing)];
}

/// Members from `leading` on, without the last `trailing`.
int between(const std::vector<int>& units_before, int leading, int trailing) {
  const int num_units = static_cast<int>(units_before.size()) - 1;
  if (leading + trailing >= num_units) return 0;
  return units_before[static_cast<std::size_t>(num_units - trailing)] -
         units_before[static_cast<std::size_t>(leading)];
}

}  // namespace

Estimator::Placed Estimator::place(const Candidate& c, const UnitClass& unit_class) const {
  Placed placed;
  placed.device_optimizer =
      covered(unit_class.units_before, c.leading_gpu_optimizer, c.trailing_gpu_optimizer);
  placed.host_optimizer = unit_class.units - placed.device_optimizer;
  placed.nvme_optimizer =
      between(unit_class.units_before,
              std::max(c.leading_gpu_optimizer, num_units_ - c.trailing_nvme_optimizer),
              c.trailing_gpu_optimizer);
  placed.streamed_optimizer =
      between(unit_class.units_before, c.leading_gpu_optimizer, num_units_ - c.gpu_adam_units);
  const int late = std::min(
      c.late_updates, num_units_ - std::max(c.trailing_gpu_optimizer, c.trailing_nvme_optimizer));
  placed.late_optimizer =
      between(unit_class.units_before, std::max(c.leading_gpu_optimizer, c.gpu_adam_units),
              num_units_ - late);
  placed.device_parameters =
      covered(unit_class.units_before, c.leading_gpu_parameters, c.trailing_gpu_parameters);
  placed.host_parameters = unit_class.units - placed.device_parameters;
  if (c.nvme_parameters) {
    const int first = std::max(c.leading_gpu_parameters, num_units_ - c.trailing_nvme_optimizer);
    placed.nvme_parameters = between(unit_class.units_before, first, c.trailing_gpu_parameters);
    // Those whose update waits for the norm, or for backward.
    const int updated_late = request_.clipping != Clipping::None ? num_units_ : c.late_updates;
    if (c.batch.accumulation == 1) {
      placed.nvme_gradients =
          between(unit_class.units_before, first,
                  std::max(c.trailing_gpu_parameters, num_units_ - updated_late));
    }
  }
  return placed;
}

TierBytes Estimator::peak_bytes(const Candidate& c) {
  const Bytes parameter = size_of(profile_.dtype);
  const Bytes gradient = size_of(gradient_dtype(profile_.dtype, c.batch.accumulation));
  const Bytes state = optimizer_state_bytes(profile_.dtype);
  TierBytes peak = state_bytes(c);
  for (const UnitClass& unit_class : classes_) {
    const Placed placed = place(c, unit_class);
    const bool sharded = c.sharding == Sharding::Sharded;
    const Bytes whole = unit_class.elements;
    const Bytes owned = c.sharding == Sharding::Replicated ? whole : whole / request_.num_gpus;
    const int slots = sharded ? std::min(c.cache_slots, unit_class.units) : unit_class.units;
    peak.gpu += (slots + std::min(c.gradient_buffers, unit_class.units)) * whole * parameter;
    if (sharded) peak.gpu += placed.device_parameters * owned * parameter;
    peak.gpu += placed.device_optimizer * owned * (gradient + state);
    peak.pinned += placed.host_optimizer * owned * (parameter + gradient);
    peak.pinned -= placed.nvme_parameters * owned * parameter;
    if (c.batch.accumulation == 1) peak.pinned -= placed.nvme_parameters * owned * gradient;
  }
  const Activations& units = activations(c);
  peak.gpu = device_blocks(peak.gpu) + profile_.workspace_bytes + units.peak_bytes;
  peak.pinned += units.pinned_bytes;
  return peak;
}

/// Of optimizer state in host memory and in files, and of what it passes through.
TierBytes Estimator::state_bytes(const Candidate& c) const {
  const Bytes state = optimizer_state_bytes(profile_.dtype);
  const std::int64_t cut = request_.num_gpus * kParameterAlignment;
  const std::int64_t whole = round_up(c.chunk_elements, cut);
  const int parts = c.sharding == Sharding::Replicated ? 1 : request_.num_gpus;
  TierBytes bytes;
  Program types;
  types.dtype = profile_.dtype;
  types.gradient_dtype = gradient_dtype(profile_.dtype, c.batch.accumulation);
  // Of a chunk's parameters, and of its gradient where that does not stay in host memory.
  const auto staging = [&](const FileBytes& file, std::int64_t elements) {
    if (file.parameters == 0 || c.batch.accumulation > 1) return file.parameters;
    return file.parameters + file_blocks(elements * size_of(types.gradient_dtype));
  };
  std::int64_t in_files = 0, staged = 0, streamed = 0;  // chunks
  Bytes file_buffer = 0, staging_buffers = 0, stream_buffer = 0;
  for (const UnitClass& unit_class : classes_) {
    const Placed placed = place(c, unit_class);
    const Bytes owned = unit_class.elements / parts * state;
    bytes.host += (placed.cpu_optimizer() + (c.speculate ? placed.early_optimizer() : 0)) * owned;
    bytes.pinned += placed.streamed_optimizer * owned;
    if (placed.nvme_optimizer == 0 && placed.streamed_optimizer == 0) continue;
    for (std::int64_t rest = unit_class.elements; rest > 0; rest -= whole) {
      const std::int64_t elements = std::min(whole, rest) / parts;
      if (placed.nvme_optimizer > 0) {
        const FileBytes file =
            file_bytes(elements, {placed.nvme_parameters > 0, placed.nvme_gradients > 0}, types);
        bytes.nvme += placed.nvme_optimizer * file.state +
                      placed.nvme_parameters * file.parameters +
                      placed.nvme_gradients * file.gradient;
        file_buffer = std::max(file_buffer, file.all());
        in_files += placed.nvme_optimizer;
        staging_buffers = std::max(staging_buffers, staging(file, elements));
        staged += placed.nvme_parameters;
      }
      if (placed.streamed_optimizer > 0) {
        stream_buffer = std::max(stream_buffer,
                                 stream_bytes(elements, types.dtype, types.gradient_dtype).buffer);
        streamed += placed.streamed_optimizer;
      }
    }
  }
  bytes.host += std::min<std::int64_t>(in_files, Plan().nvme_buffers) * file_buffer;
  bytes.pinned += std::min<std::int64_t>(staged, Plan().parameter_buffers) * staging_buffers;
  bytes.gpu += std::min<std::int64_t>(streamed, Plan().stream_buffers) * stream_buffer;
  return bytes;
}

}  // namespace athanor
