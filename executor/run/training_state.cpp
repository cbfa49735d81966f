// SPDX-License-Identifier: Apache-2.0
#include "executor/run/training_state.hpp"

#include "executor/lanes/adam.hpp"
#include "sim/model/chunk_layout.hpp"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace athanor {
namespace {

std::size_t size(std::int64_t elements) { return static_cast<std::size_t>(elements); }

/// Reads what exists of [offset, offset + out.size()) and zeroes the padding behind it.
void read_padded(const StateReader& reader, std::int32_t unit, StatePart part, std::int64_t offset,
                 std::span<float> out, std::int64_t logical) {
  const std::int64_t present =
      std::clamp<std::int64_t>(logical - offset, 0, static_cast<std::int64_t>(out.size()));
  if (present > 0) reader(unit, part, offset, out.first(size(present)));
  std::fill(out.begin() + present, out.end(), 0.0F);
}

/// fp32 -> compute dtype.
void write_parameters(DataType dtype, std::span<const float> from, std::byte* to) {
  if (dtype == DataType::BFloat16) {
    convert_to_bf16(from, {reinterpret_cast<BFloat16Bits*>(to), from.size()}, 1);
  } else if (reinterpret_cast<const std::byte*>(from.data()) != to) {
    std::memcpy(to, from.data(), from.size_bytes());
  }
}

class StateLoader {
 public:
  StateLoader(const RankContext& context, const StateReader& reader)
      : context_(context), reader_(reader) {}

  void load(std::int32_t unit, std::int64_t logical) {
    const auto index = static_cast<std::size_t>(unit);
    if (context_.plan.units[index].sharding != Sharding::Sharded) load_storage(unit, logical);
    for (const ChunkMemory& memory : context_.memory.chunks(unit)) {
      load_chunk(unit, memory, logical);
    }
  }

 private:
  void load_storage(std::int32_t unit, std::int64_t logical) {
    const UnitLayout& layout = context_.program.layouts[static_cast<std::size_t>(unit)];
    std::byte* const storage = context_.memory.parameters(unit, -1);
    for (const Chunk& chunk : layout.chunks) {
      buffer_.resize(size(chunk.elements));
      read_padded(reader_, unit, StatePart::Master, chunk.offset, buffer_, logical);
      write_parameters(context_.program.dtype, buffer_, storage + context_.bytes_of(chunk.offset));
    }
  }

  void load_chunk(std::int32_t unit, const ChunkMemory& memory, std::int64_t logical) {
    const auto read = [&](StatePart part, float* to) {
      read_padded(reader_, unit, part, memory.offset, {to, size(memory.elements)}, logical);
    };
    read(StatePart::Master, memory.master);
    read(StatePart::FirstMoment, memory.first_moment);
    read(StatePart::SecondMoment, memory.second_moment);
    const std::span<const float> master{memory.master, size(memory.elements)};
    for (std::byte* const home : {memory.host_parameters, memory.device_parameters}) {
      if (home != nullptr) write_parameters(context_.program.dtype, master, home);
    }
  }

  const RankContext& context_;
  const StateReader& reader_;
  std::vector<float> buffer_;
};

}  // namespace

std::vector<std::int64_t> logical_elements(const Architecture& architecture) {
  std::vector<std::int64_t> logical(architecture.units.size());
  for (std::size_t i = 0; i < logical.size(); ++i) {
    static_cast<void>(parameter_offsets(architecture.units[i], logical[i]));
  }
  return logical;
}

StateReader fresh_state(const Architecture& architecture,
                        std::function<void(std::int32_t, std::span<float>)> weights) {
  // Chunks of one unit are read one after the other: its weights are made once.
  struct Cache {
    std::int32_t unit = -1;
    std::vector<float> flat;
  };
  return [logical = logical_elements(architecture), weights = std::move(weights),
          cache = std::make_shared<Cache>()](std::int32_t unit, StatePart part, std::int64_t offset,
                                             std::span<float> out) {
    if (part != StatePart::Master) return std::fill(out.begin(), out.end(), 0.0F);
    if (cache->unit != unit) {
      cache->flat.assign(size(logical[static_cast<std::size_t>(unit)]), 0.0F);
      weights(unit, cache->flat);
      cache->unit = unit;
    }
    std::copy_n(cache->flat.begin() + offset, out.size(), out.begin());
  };
}

void load_state(const RankContext& context, const std::vector<std::int64_t>& logical,
                const StateReader& reader) {
  StateLoader loader(context, reader);
  for (std::size_t unit = 0; unit < logical.size(); ++unit) {
    loader.load(static_cast<std::int32_t>(unit), logical[unit]);
  }
}

std::vector<StateRange> ranges_to_save(const RankContext& context,
                                       const std::vector<std::int64_t>& logical) {
  std::vector<StateRange> ranges;
  const int world_size = context.program.world_size;
  for (std::size_t u = 0; u < logical.size(); ++u) {
    const auto unit = static_cast<std::int32_t>(u);
    const bool replicated = context.plan.units[u].sharding == Sharding::Replicated;
    for (const ChunkMemory& memory : context.memory.chunks(unit)) {
      // Every rank has a replicated chunk: each saves its part of it.
      const std::int64_t part = replicated ? memory.elements / world_size : memory.elements;
      const std::int64_t skip = replicated ? context.collectives.rank() * part : 0;
      const std::int64_t offset = memory.offset + skip;
      const std::int64_t elements = std::min(part, logical[u] - offset);
      if (elements <= 0) continue;
      ranges.push_back({unit,
                        offset,
                        {memory.master + skip, size(elements)},
                        {memory.first_moment + skip, size(elements)},
                        {memory.second_moment + skip, size(elements)}});
    }
  }
  return ranges;
}

std::vector<float> gather_weights(const RankContext& context, std::int32_t unit,
                                  std::int64_t logical_elements) {
  const auto index = static_cast<std::size_t>(unit);
  const UnitLayout& layout = context.program.layouts[index];
  std::vector<float> flat(size(layout.elements));
  for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
    const ChunkMemory& memory = context.memory.chunks(unit)[c];
    std::copy_n(memory.master, memory.elements, flat.begin() + memory.offset);
    if (context.plan.units[index].sharding == Sharding::Replicated) continue;
    context.collectives.all_gather(flat.data() + layout.chunks[c].offset,
                                   memory.elements * static_cast<Bytes>(sizeof(float)));
  }
  flat.resize(size(logical_elements));
  return flat;
}

}  // namespace athanor
