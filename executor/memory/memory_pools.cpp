// SPDX-License-Identifier: Apache-2.0
#include "executor/memory/memory_pools.hpp"

#include "sim/base/errors.hpp"
#include "sim/lowering/snapshot_memory.hpp"
#include "sim/lowering/static_memory.hpp"
#include "sim/model/chunk_update.hpp"
#include "sim/model/memory.hpp"

#include <fmt/format.h>

#include <cassert>

namespace athanor {
namespace {

void check_accounted(const char* tier, Bytes taken, Bytes accounted) {
  if (taken != accounted) {
    throw Error(fmt::format("{} memory of this plan is {} bytes, but the program accounts for {}",
                            tier, taken, accounted));
  }
}

}  // namespace

// Lays the pools out twice: once on null blocks to learn the sizes, once on the real ones.
class MemoryPools::Builder {
 public:
  Builder(const Program& program, const Plan& plan, int rank, MemoryPools& pools)
      : program_(program), plan_(plan), rank_(rank), pools_(pools) {}

  void lay_out(std::byte* device, std::byte* pinned, std::byte* host) {
    device_ = device;
    pinned_ = pinned;
    host_ = host;
    pools_.bytes_ = {};
    lay_out_state_buffers();
    lay_out_pools();
    lay_out_units();
    lay_out_outputs();
  }

 private:
  std::byte* allocate(std::byte* base, Bytes& used, Bytes bytes) const {
    std::byte* const place = base == nullptr ? nullptr : base + used;
    used += bytes;
    return place;
  }
  std::byte* device(Bytes bytes) { return allocate(device_, pools_.bytes_.gpu, bytes); }
  std::byte* pinned(Bytes bytes) { return allocate(pinned_, pools_.bytes_.pinned, bytes); }
  std::byte* host(Bytes bytes) { return allocate(host_, pools_.bytes_.host, bytes); }
  using Place = std::byte* (Builder::*)(Bytes bytes);

  /// Lays out buffers first in host and pinned memory: at the start of a page, as reads past the
  /// page cache need them.
  void lay_out_state_buffers() {
    pools_.state_buffers_.clear();
    pools_.stream_buffers_.clear();
    pools_.parameter_buffers_.clear();
    pools_.staged_gradients_.clear();
    pools_.snapshot_log_ = pinned(snapshot_log_size(program_, plan_).all());
    for (int i = 0; i < program_.parameter_buffers; ++i) {
      pools_.parameter_buffers_.push_back(pinned(program_.parameter_buffer_bytes));
    }
    for (int i = 0; i < program_.staged_gradients; ++i) {
      pools_.staged_gradients_.push_back(pinned(program_.staged_gradient_bytes));
    }
    for (int i = 0; i < program_.stream_buffers; ++i) {
      pools_.stream_buffers_.push_back(device(program_.stream_buffer_bytes));
    }
    pools_.receive_buffer_ = device(program_.receive_bytes);
    for (int i = 0; i < program_.state_buffers; ++i) {
      pools_.state_buffers_.push_back(host(program_.state_buffer_bytes));
    }
  }

  void lay_out_pools() {
    pools_.slots_.assign(program_.pools.size(), {});
    pools_.gradient_buffers_.assign(program_.pools.size(), {});
    pools_.accumulators_.assign(program_.pools.size(), {});
    for (std::size_t i = 0; i < program_.pools.size(); ++i) {
      const UnitPool& pool = program_.pools[i];
      const Bytes bytes = pool.elements * pools_.element_bytes_;
      for (int k = 0; k < pool.slots; ++k) pools_.slots_[i].push_back(device(bytes));
      for (int k = 0; k < pool.gradient_buffers; ++k) {
        pools_.gradient_buffers_[i].push_back(device(bytes));
      }
      for (int k = 0; k < pool.accumulators; ++k) {
        pools_.accumulators_[i].push_back(
            device(pool.accumulator_elements * size_of(program_.gradient_dtype)));
      }
    }
  }

  void lay_out_units() {
    pools_.storages_.assign(program_.layouts.size(), nullptr);
    pools_.chunks_.assign(program_.layouts.size(), {});
    for (std::size_t unit = 0; unit < program_.layouts.size(); ++unit) {
      const UnitLayout& layout = program_.layouts[unit];
      const Sharding sharding = plan_.units[unit].sharding;
      if (sharding != Sharding::Sharded) {
        pools_.storages_[unit] = device(layout.held_elements * pools_.element_bytes_);
      }
      for (const Chunk& chunk : layout.chunks) {
        pools_.chunks_[unit].push_back(lay_out_chunk(unit, chunk, pools_.storages_[unit]));
      }
    }
  }

  void lay_out_outputs() {
    pools_.host_outputs_.assign(program_.layouts.size(), {});
    for (const Operation& op : program_.operations) {
      const bool in_first_group = op.micro_batch == op.member;
      if (op.kind != OpKind::OutputD2H || !in_first_group) continue;
      pools_.host_outputs_[index(op.unit)].push_back(pinned(op.bytes));
    }
  }

  ChunkMemory lay_out_chunk(std::size_t unit, const Chunk& chunk, std::byte* storage) {
    const Sharding sharding = plan_.units[unit].sharding;
    ChunkMemory memory;
    memory.steps_each = plan_.snapshot_every;
    const bool whole = sharding == Sharding::Replicated && !chunk.owned;
    memory.elements = whole ? chunk.elements : chunk.shard_elements(program_.world_size);
    memory.offset = chunk.offset + (whole ? 0 : rank_ * chunk.stride);
    memory.place = chunk.place + (whole || chunk.owned ? 0 : rank_ * memory.elements);
    memory.sum_offset = whole ? chunk.offset : chunk.offset / program_.world_size;
    const Bytes bytes = memory.elements * pools_.element_bytes_;
    if (sharding != Sharding::Sharded) {
      memory.device_parameters =
          storage == nullptr ? nullptr : storage + memory.place * pools_.element_bytes_;
    } else if (chunk.parameters == Home::Gpu) {
      memory.device_parameters = device(bytes);
    }
    if (off_gpu(chunk.optimizer) && chunk.parameters != Home::Nvme)
      memory.host_parameters = pinned(bytes);
    if (has_versions(plan_, chunk)) memory.other_host_parameters = pinned(bytes);
    lay_out_state(chunk, sharding, memory);
    return memory;
  }

  void lay_out_state(const Chunk& chunk, Sharding sharding, ChunkMemory& memory) {
    const bool on_host = off_gpu(chunk.optimizer);
    const bool state_in_file = chunk.optimizer == Home::Nvme;
    const Bytes gradient = memory.elements * size_of(program_.gradient_dtype);
    if (!stages_gradient(plan_, chunk)) {
      memory.gradient = on_host ? pinned(gradient) : device(gradient);
    }
    take_states(chunk, sharding, memory);
    if (!state_in_file) return;
    const FileBytes file = file_bytes(memory.elements, in_file(plan_, chunk), program_);
    memory.file_offset = pools_.bytes_.nvme;
    memory.file_parameter_bytes = file.parameters;
    if (file.gradient > 0) memory.file_gradient_offset = file.parameters + file.state;
    pools_.bytes_.nvme += file.all();
  }

  /// Lays out the state of a chunk, and what is kept beside it.
  void take_states(const Chunk& chunk, Sharding sharding, ChunkMemory& memory) {
    const bool on_host = off_gpu(chunk.optimizer);
    const Place home = chunk.optimizer == Home::Nvme ? nullptr
                       : chunk.gpu_adam              ? &Builder::pinned
                       : on_host                     ? &Builder::host
                                                     : &Builder::device;
    take_state(memory.state, on_host ? memory.host_parameters : memory.device_parameters, memory,
               home);
    if (has_versions(plan_, chunk)) {
      take_state(memory.other, memory.other_host_parameters, memory, home);
    } else if (speculates(plan_, chunk)) {
      take_state(memory.other, memory.host_parameters, memory, home);
      take(memory.old_parameters, memory.elements, home);
    }
    const auto take_copies = [&](std::array<AdamStateView, 2>& copies, Place place) {
      for (AdamStateView& copy : copies) {
        std::byte* const parameters = (this->*place)(memory.elements * pools_.element_bytes_);
        take_state(copy, parameters, memory, place);
      }
    };
    if (has_peer_copy(plan_, chunk, sharding)) take_copies(memory.ward, &Builder::host);
    if (has_state_copies(plan_, chunk)) take_copies(memory.copies, &Builder::pinned);
  }

  void take_state(AdamStateView& state, std::byte* parameters, const ChunkMemory& memory,
                  Place place) {
    const std::int64_t elements = memory.elements;
    if (program_.dtype == DataType::Float32) {
      state.master = reinterpret_cast<float*>(parameters);
    } else {
      state.parameters = reinterpret_cast<BFloat16Bits*>(parameters);
      take(state.rests, elements, place);
    }
    if (program_.adam_state == AdamState::Float32) {
      take(state.first_moment, elements, place);
      take(state.second_moment, elements, place);
    } else if (program_.adam_state == AdamState::BFloat16) {
      take(state.first_moment_bf16, elements, place);
      take(state.second_moment_bf16, elements, place);
    } else {
      take(state.first_moment_int8, elements, place);
      take(state.second_moment_int8, elements, place);
      take(state.scales, elements / kMomentBlock, place);
    }
  }

  /// Takes nothing where what it is for lies in the file.
  template <typename Value>
  void take(Value*& array, std::int64_t elements, Place place) {
    if (place == nullptr) return;
    array = reinterpret_cast<Value*>((this->*place)(elements * static_cast<Bytes>(sizeof(Value))));
  }

  const Program& program_;
  const Plan& plan_;
  int rank_;
  MemoryPools& pools_;
  std::byte *device_ = nullptr, *pinned_ = nullptr, *host_ = nullptr;
};

MemoryPools::MemoryPools(const Program& program, const Plan& plan, int rank, Device& device,
                         const std::string& nvme_folder, const SharedMemory* shared)
    : element_bytes_(size_of(program.dtype)),
      adam_state_(program.adam_state),
      moment_bytes_(athanor::moment_bytes(program.adam_state, 1) / 2),
      pool_of_(program.pool_of) {
  for (const UnitLayout& layout : program.layouts) unit_elements_.push_back(layout.held_elements);
  Builder builder(program, plan, rank, *this);
  builder.lay_out(nullptr, nullptr, nullptr);
  const TierBytes accounted = static_bytes(program);
  check_accounted("device", device_blocks(bytes_.gpu), accounted.gpu);
  check_accounted("pinned", bytes_.pinned, accounted.pinned);
  check_accounted("host", bytes_.host, accounted.host);
  check_accounted("nvme", bytes_.nvme, accounted.nvme);
  device_ = device.allocate(accounted.gpu);
  if (shared != nullptr) {
    pinned_ = device.pin(shared->map(0, bytes_.pinned), bytes_.pinned);
    host_ = shared->map(whole_pages(bytes_.pinned), bytes_.host);
  } else {
    pinned_ = device.allocate_pinned(bytes_.pinned);
    host_ = allocate_host_memory(bytes_.host);
  }
  if (bytes_.nvme > 0) file_.emplace(nvme_folder, bytes_.nvme);
  builder.lay_out(device_.get(), pinned_.get(), host_.get());
}

TierBytes static_bytes(const Program& program) noexcept {
  TierBytes total;
  for (const Buffer& buffer : program.static_buffers) {
    bytes_of(total, buffer.tier) += buffer.bytes;
  }
  return total;
}

Bytes shared_bytes(const TierBytes& memory) noexcept {
  return whole_pages(memory.host) + whole_pages(memory.pinned);
}

std::size_t MemoryPools::index(std::int64_t value) {
  assert(value >= 0);
  return static_cast<std::size_t>(value);
}

std::byte* MemoryPools::parameters(std::int32_t unit, std::int32_t slot) const {
  if (slot < 0) return storages_[index(unit)];
  return slots_[index(pool_of_[index(unit)])][index(slot)];
}

std::byte* MemoryPools::gradients(std::int32_t unit, std::int32_t buffer) const {
  return gradient_buffers_[index(pool_of_[index(unit)])][index(buffer)];
}

Bytes MemoryPools::gradient_bytes(std::int32_t unit) const {
  return unit_elements_[index(unit)] * element_bytes_;
}

float* MemoryPools::gradient_sum(const Operation& op) const {
  std::byte* const sums = accumulators_[index(pool_of_[index(op.unit)])][index(op.accumulator)];
  return reinterpret_cast<float*>(sums) + chunk(op.unit, op.chunk).sum_offset;
}

std::byte* MemoryPools::received(const Operation& op) const {
  return op.receive_offset < 0 ? nullptr : receive_buffer_ + op.receive_offset;
}

std::byte* MemoryPools::host_output(const Operation& copy) const {
  return host_outputs_[index(copy.unit)][index(copy.member)];
}

const ChunkMemory& MemoryPools::chunk(std::int32_t unit, std::int32_t chunk) const {
  return chunks_[index(unit)][index(chunk)];
}

const std::vector<ChunkMemory>& MemoryPools::chunks(std::int32_t unit) const {
  return chunks_[index(unit)];
}

}  // namespace athanor
