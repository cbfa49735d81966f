// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/static_memory.hpp"

#include "sim/lowering/snapshot_memory.hpp"

#include <algorithm>

namespace athanor {
namespace {

/// Elements that one rank holds for one unit, by purpose.
struct UnitElements {
  std::int64_t replicated = 0;        ///< whole parameters on the device
  std::int64_t device_shards = 0;     ///< parameter shards on the device
  std::int64_t device_optimizer = 0;  ///< gradient shard and optimizer state on the device
  std::int64_t host_gradients = 0;    ///< gradient shard on the host
  std::int64_t host_parameters = 0;   ///< parameters in host memory, twice where there are versions
  std::int64_t host_state = 0;        ///< optimizer state in host memory, twice where updates keep
                                      ///< the old
  std::int64_t old_parameters = 0;    ///< in host memory, kept until the norm is known
  std::int64_t streamed_state = 0;    ///< in pinned host memory
  std::int64_t ward_state = 0;        ///< versions of the ward, in host memory
  std::int64_t copied_state = 0;      ///< copies of state on the device, in pinned host memory
  FileBytes file;
};

UnitElements count_elements(const Program& program, const Plan& plan, std::size_t unit) {
  const UnitLayout& layout = program.layouts[unit];
  const Sharding sharding = plan.units[unit].sharding;
  UnitElements count;
  if (sharding != Sharding::Sharded) count.replicated = layout.held_elements;
  for (const Chunk& chunk : layout.chunks) {
    const std::int64_t owned = owned_elements(chunk, sharding, program.world_size);
    if (has_peer_copy(plan, chunk, sharding)) count.ward_state += kKeptVersions * owned;
    if (sharding == Sharding::Sharded && chunk.parameters == Home::Gpu) {
      count.device_shards += owned;
    }
    if (!off_gpu(chunk.optimizer)) {
      count.device_optimizer += owned;
      if (has_state_copies(plan, chunk)) count.copied_state += kKeptVersions * owned;
      continue;
    }
    if (!stages_gradient(plan, chunk)) count.host_gradients += owned;
    if (chunk.parameters != Home::Nvme) count.host_parameters += owned;
    if (chunk.gpu_adam) {
      count.streamed_state += owned;
    } else if (chunk.optimizer == Home::Host) {
      count.host_state += owned;
      if (!updates_beside(plan, chunk)) continue;
      count.host_state += owned;
      (has_versions(plan, chunk) ? count.host_parameters : count.old_parameters) += owned;
    }
    if (chunk.optimizer != Home::Nvme) continue;
    const FileBytes file = file_bytes(owned, in_file(plan, chunk), program);
    count.file.parameters += file.parameters;
    count.file.state += file.state;
    count.file.gradient += file.gradient;
  }
  return count;
}

Bytes state_bytes(std::int64_t elements, const Program& program) {
  return optimizer_state_bytes(elements, program.dtype, program.adam_state);
}

void add_buffer(Program& program, const std::string& name, Tier tier, Bytes bytes) {
  if (bytes > 0) program.static_buffers.push_back({name, tier, bytes});
}

void add_unit(Program& program, const std::string& unit, const UnitElements& count) {
  const Bytes parameter = size_of(program.dtype);
  const Bytes gradient = size_of(program.gradient_dtype);
  add_buffer(program, "parameters " + unit, Tier::Gpu, count.replicated * parameter);
  add_buffer(program, "parameter shards " + unit, Tier::Gpu, count.device_shards * parameter);
  add_buffer(program, "gradient shards " + unit, Tier::Gpu, count.device_optimizer * gradient);
  add_buffer(program, "optimizer " + unit, Tier::Gpu, state_bytes(count.device_optimizer, program));
  add_buffer(program, "host parameters " + unit, Tier::Pinned, count.host_parameters * parameter);
  add_buffer(program, "host gradients " + unit, Tier::Pinned, count.host_gradients * gradient);
  add_buffer(program, "host optimizer " + unit, Tier::Host,
             state_bytes(count.host_state, program) + count.old_parameters * parameter);
  add_buffer(program, "copies for the ward " + unit, Tier::Host,
             version_bytes(count.ward_state, program));
  add_buffer(program, "copies of state " + unit, Tier::Pinned,
             version_bytes(count.copied_state, program));
  add_buffer(program, "streamed optimizer " + unit, Tier::Pinned,
             state_bytes(count.streamed_state, program));
  add_buffer(program, "nvme parameters " + unit, Tier::Nvme, count.file.parameters);
  add_buffer(program, "nvme optimizer " + unit, Tier::Nvme, count.file.state);
  add_buffer(program, "nvme gradients " + unit, Tier::Nvme, count.file.gradient);
}

}  // namespace

Bytes optimizer_state_bytes(std::int64_t elements, DataType dtype, AdamState adam_state) noexcept {
  constexpr Bytes kMaster = 4;
  return moment_bytes(adam_state, elements) + elements * (kMaster - size_of(dtype));
}

FileBytes file_bytes(std::int64_t elements, InFile in_file, const Program& program) noexcept {
  return {in_file.parameters ? file_blocks(elements * size_of(program.dtype)) : 0,
          file_blocks(state_bytes(elements, program)),
          in_file.gradient ? file_blocks(elements * size_of(program.gradient_dtype)) : 0};
}

Bytes version_bytes(std::int64_t elements, const Program& program) noexcept {
  return elements * size_of(program.dtype) + state_bytes(elements, program);
}

StreamBytes stream_bytes(std::int64_t elements, const Program& program) noexcept {
  const Bytes written = version_bytes(elements, program);
  return {written + elements * size_of(program.gradient_dtype), written};
}

Bytes state_copy_bytes(Lane lane, std::int64_t elements, InFile in_file,
                       const Program& program) noexcept {
  if (is_nvme_lane(lane)) {
    const FileBytes file = file_bytes(elements, in_file, program);
    return lane == Lane::NvmeWrite ? file.parameters + file.state : file.all();
  }
  const StreamBytes moved = stream_bytes(elements, program);
  return lane == Lane::H2D ? moved.read : moved.written;
}

std::int64_t owned_elements(const Chunk& chunk, Sharding sharding, int world_size) {
  const bool whole = sharding == Sharding::Replicated && !chunk.owned;
  return whole ? chunk.elements : chunk.shard_elements(world_size);
}

void make_pools(Program& program, const Architecture& architecture, const Plan& plan) {
  for (std::size_t u = 0; u < architecture.units.size(); ++u) {
    const std::string& unit_class = architecture.units[u].unit_class;
    auto pool = std::ranges::find(program.pools, unit_class, &UnitPool::unit_class);
    if (pool == program.pools.end()) {
      program.pools.push_back({unit_class, 0, 0, 0});
      pool = std::prev(program.pools.end());
    }
    pool->elements = std::max(pool->elements, program.layouts[u].held_elements);
    program.pool_of.push_back(static_cast<std::int32_t>(pool - program.pools.begin()));
    if (program.layouts[u].chunks.empty()) continue;
    // A group keeps the gradient that a borrower began for each of its members.
    const std::int64_t held = architecture.lends(u) ? plan.micro_batch_group : 1;
    pool->gradient_buffers = static_cast<int>(
        std::min<std::int64_t>(pool->gradient_buffers + held, plan.gradient_buffers));
    if (plan.units[u].sharding == Sharding::Sharded) {
      pool->slots = std::min(pool->slots + 1, plan.cache_slots);
    }
    if (!accumulates_on_device(plan) || !keeps_state_off_gpu(program.layouts[u].chunks)) continue;
    pool->accumulators = std::min(pool->accumulators + 1, plan.gradient_buffers);
    pool->accumulator_elements = std::max(
        pool->accumulator_elements, owned_elements({.elements = program.layouts[u].elements},
                                                   plan.units[u].sharding, program.world_size));
  }
}

void make_state_buffers(Program& program, const Plan& plan) {
  const auto pass = [](int& buffers, Bytes& bytes, int most, Bytes needed) {
    buffers = std::min(buffers + 1, most);
    bytes = std::max(bytes, needed);
  };
  for (std::size_t u = 0; u < program.layouts.size(); ++u) {
    for (const Chunk& chunk : program.layouts[u].chunks) {
      const std::int64_t owned = owned_elements(chunk, plan.units[u].sharding, program.world_size);
      if (chunk.gpu_adam) {
        pass(program.stream_buffers, program.stream_buffer_bytes, plan.stream_buffers,
             stream_bytes(owned, program).read);
      }
      if (stages_gradient(plan, chunk)) {
        pass(program.staged_gradients, program.staged_gradient_bytes, most_staged_gradients(plan),
             file_blocks(owned * size_of(program.gradient_dtype)));
      }
      if (chunk.optimizer != Home::Nvme) continue;
      const FileBytes file = file_bytes(owned, in_file(plan, chunk), program);
      pass(program.state_buffers, program.state_buffer_bytes, plan.nvme_buffers, file.all());
      if (file.parameters == 0) continue;
      pass(program.parameter_buffers, program.parameter_buffer_bytes, plan.parameter_buffers,
           file.parameters);
    }
  }
}

int receive_buffers(SnapshotSend send, std::int64_t chunks) noexcept {
  constexpr std::int64_t kPipelined = 2;
  switch (send) {
    case SnapshotSend::Direct:
      return 0;
    case SnapshotSend::Naive:
      return static_cast<int>(chunks);
    case SnapshotSend::Pipelined:
      return static_cast<int>(std::min(chunks, kPipelined));
    case SnapshotSend::Blocking:
    case SnapshotSend::Chunked:
      break;
  }
  return static_cast<int>(std::min<std::int64_t>(chunks, 1));
}

Bytes receive_bytes(SnapshotSend send, const SentChunks& sent) noexcept {
  if (send == SnapshotSend::Naive) return sent.bytes;
  return receive_buffers(send, sent.chunks) * sent.largest;
}

void make_receive_buffers(Program& program, const Plan& plan) {
  SentChunks sent;
  for (std::size_t u = 0; u < program.layouts.size(); ++u) {
    const Sharding sharding = plan.units[u].sharding;
    for (const Chunk& chunk : program.layouts[u].chunks) {
      if (!has_peer_copy(plan, chunk, sharding)) continue;
      sent.add(1, version_bytes(owned_elements(chunk, sharding, program.world_size), program));
    }
  }
  program.receive_buffers = receive_buffers(plan.snapshot_send, sent.chunks);
  program.receive_buffer_bytes = program.receive_buffers > 0 ? sent.largest : 0;
  program.receive_bytes = receive_bytes(plan.snapshot_send, sent);
}

void make_static_buffers(Program& program, const Plan& plan) {
  for (const UnitPool& pool : program.pools) {
    const Bytes buffer = pool.elements * size_of(program.dtype);
    add_buffer(program, "cache " + pool.unit_class, Tier::Gpu, pool.slots * buffer);
    add_buffer(program, "gradients " + pool.unit_class, Tier::Gpu, pool.gradient_buffers * buffer);
    add_buffer(program, "gradient sums " + pool.unit_class, Tier::Gpu,
               pool.accumulators * pool.accumulator_elements * size_of(program.gradient_dtype));
  }
  for (std::size_t u = 0; u < program.layouts.size(); ++u) {
    add_unit(program, program.unit_names[u], count_elements(program, plan, u));
  }
  add_buffer(program, "snapshot log", Tier::Pinned, snapshot_log_size(program, plan).all());
  add_buffer(program, "optimizer state buffers", Tier::Host,
             program.state_buffers * program.state_buffer_bytes);
  add_buffer(program, "parameter buffers", Tier::Pinned,
             program.parameter_buffers * program.parameter_buffer_bytes);
  add_buffer(program, "staged gradients", Tier::Pinned,
             program.staged_gradients * program.staged_gradient_bytes);
  add_buffer(program, "stream buffers", Tier::Gpu,
             program.stream_buffers * program.stream_buffer_bytes);
  add_buffer(program, "receive buffer", Tier::Gpu, program.receive_bytes);
  Bytes device = 0;
  for (const Buffer& buffer : program.static_buffers) {
    device += buffer.tier == Tier::Gpu ? buffer.bytes : 0;
  }
  add_buffer(program, "alignment", Tier::Gpu, device_blocks(device) - device);
}

}  // namespace athanor
