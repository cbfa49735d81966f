// SPDX-License-Identifier: Apache-2.0
#include "executor/train/training_state.hpp"

#include "executor/cpu/host_copy.hpp"
#include "executor/cpu/split_master.hpp"
#include "sim/model/chunk_layout.hpp"

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <numeric>
#include <utility>

namespace athanor {
namespace {

std::size_t size(std::int64_t elements) { return static_cast<std::size_t>(elements); }

/// Number of elements that are read and written at a time: few enough for the processor's caches.
constexpr std::int64_t kSlice = 4 * 1024 * 1024;

/// Writes state through a buffer, since a pool may be in device memory or a file.
class StateLoader {
 public:
  StateLoader(const RankContext& context, std::int64_t steps, const StartState& start)
      : context_(context), steps_(steps), start_(start) {}

  void load(std::int32_t unit, std::int64_t logical) {
    const auto index = static_cast<std::size_t>(unit);
    if (context_.plan.units[index].sharding != Sharding::Sharded) load_storage(unit, logical);
    for (const ChunkMemory& memory : context_.memory.chunks(unit)) {
      load_chunk(unit, memory, logical);
    }
  }

 private:
  void load_storage(std::int32_t unit, std::int64_t logical) {
    std::byte* const storage = context_.memory.parameters(unit, -1);
    for (const Chunk& chunk : context_.program.layouts.at(unit).chunks) {
      if (chunk.owned) continue;  // load_chunk() writes it
      for (std::int64_t at = 0; at < chunk.elements; at += kSlice) {
        const std::int64_t elements = std::min(kSlice, chunk.elements - at);
        read(unit, StatePart::Master, chunk.offset + at, elements, logical);
        write(storage + context_.bytes_of(chunk.place + at), in_compute_dtype());
      }
    }
  }

  void load_chunk(std::int32_t unit, const ChunkMemory& memory, std::int64_t logical) {
    load_part(unit, memory, StatePart::Master, logical);
    if (!start_.has_moments) {
      return context_.memory.clear_moments(memory, steps_, context_.device);
    }
    load_part(unit, memory, StatePart::FirstMoment, logical);
    load_part(unit, memory, StatePart::SecondMoment, logical);
  }

  void load_part(std::int32_t unit, const ChunkMemory& memory, StatePart part,
                 std::int64_t logical) {
    for (std::int64_t skip = 0; skip < memory.elements; skip += kSlice) {
      read(unit, part, memory.offset + skip, std::min(kSlice, memory.elements - skip), logical);
      context_.memory.write_part(memory, part, steps_, skip, buffer_, context_.device);
    }
  }

  /// Reads what exists of [offset, offset + elements) and zeroes the padding behind it.
  void read(std::int32_t unit, StatePart part, std::int64_t offset, std::int64_t elements,
            std::int64_t logical) {
    buffer_.resize(size(elements));
    const std::int64_t present = std::clamp<std::int64_t>(logical - offset, 0, elements);
    const std::span<float> all(buffer_);
    for (const StridedRange& range :
         in_model_order(context_.program.layouts.at(unit), offset, present)) {
      for (std::int64_t i = 0; i < range.count; ++i) {
        start_.read(unit, part, range.offset + i * range.stride,
                    all.subspan(size(range.at + i * range.run), size(range.run)));
      }
    }
    std::fill(all.begin() + present, all.end(), 0.0F);
  }

  /// Returns the buffer's elements, rounded in bf16 training.
  std::span<const std::byte> in_compute_dtype() {
    if (context_.program.dtype == DataType::Float32) {
      return std::as_bytes(std::span<const float>(buffer_));
    }
    rounded_.resize(buffer_.size());
    round_to_parameters(buffer_, rounded_, memory_threads());
    return std::as_bytes(std::span<const BFloat16Bits>(rounded_));
  }

  void write(std::byte* to, std::span<const std::byte> from) const {
    context_.device.copy_now(to, from.data(), std::ssize(from));
  }

  const RankContext& context_;
  std::int64_t steps_;
  const StartState& start_;
  std::vector<float> buffer_;
  std::vector<BFloat16Bits> rounded_;
};

/// Makes units' weights, each once for all its chunks, some units ahead of the one that is read.
class WeightsAhead {
 public:
  WeightsAhead(std::vector<std::int64_t> logical, WeightsOfUnit make, Bytes room)
      : logical_(std::move(logical)), make_(std::move(make)), room_(room) {}

  const std::vector<float>& of(std::int32_t unit) {
    if (current_ == unit) return flat_;
    flat_ = {};  // its memory serves the next
    std::erase_if(coming_, [unit](const auto& item) { return item.first < unit; });
    const std::int32_t end = end_of_room(unit);
    for (std::int32_t next = unit; next < end; ++next) {
      if (!coming_.contains(next)) {
        coming_[next] = std::async(std::launch::async, [this, next] { return made(next); });
      }
    }
    flat_ = coming_.extract(unit).mapped().get();
    current_ = unit;
    return flat_;
  }

 private:
  /// More threads than this do not help.
  static constexpr std::int32_t kMostAhead = 7;

  /// Returns the end of the units that may be in memory while `unit` is read: that unit, and those
  /// after it for which there is room.
  [[nodiscard]] std::int32_t end_of_room(std::int32_t unit) const {
    const auto end = std::min(unit + 1 + kMostAhead, static_cast<std::int32_t>(logical_.size()));
    Bytes held = bytes_of(unit);
    std::int32_t next = unit + 1;
    while (next < end && (held += bytes_of(next)) <= room_) ++next;
    return next;
  }
  [[nodiscard]] Bytes bytes_of(std::int32_t unit) const {
    return logical_.at(size(unit)) * static_cast<Bytes>(sizeof(float));
  }

  std::vector<float> made(std::int32_t unit) const {
    std::vector<float> flat(size(logical_.at(size(unit))));
    make_(unit, flat);
    return flat;
  }

  std::vector<std::int64_t> logical_;
  WeightsOfUnit make_;
  Bytes room_;
  std::int32_t current_ = -1;
  std::vector<float> flat_;
  std::map<std::int32_t, std::future<std::vector<float>>> coming_;
};

/// Calls body(memory, copy) for every chunk of which host memory keeps copies.
template <typename Body>
void for_each_kept(const RankContext& context, std::int64_t steps, const Body& body) {
  for (std::size_t unit = 0; unit < context.program.layouts.size(); ++unit) {
    for (const ChunkMemory& memory : context.memory.chunks(static_cast<std::int32_t>(unit))) {
      const AdamStateView& copy = memory.copy_after(steps);
      if (copy.has_moments()) body(memory, copy);
    }
  }
}

auto copier(Device& device) {
  return [&device]<typename Value>(Value* to, const Value* from, std::int64_t count) {
    device.copy_now(to, from, count * static_cast<Bytes>(sizeof(Value)));
  };
}

/// Parameters in host memory: those of the state there, or of a copy of the state on the device.
const std::byte* kept_parameters(const ChunkMemory& memory, std::int64_t steps) {
  const AdamStateView& copy = memory.copy_after(steps);
  if (!copy.has_moments()) return memory.host_parameters_after(steps);
  return copy.is_split() ? reinterpret_cast<const std::byte*>(copy.parameters)
                         : reinterpret_cast<const std::byte*>(copy.master);
}

}  // namespace

std::vector<std::int64_t> logical_elements(const Architecture& architecture) {
  std::vector<std::int64_t> logical(architecture.units.size());
  for (std::size_t i = 0; i < logical.size(); ++i) {
    static_cast<void>(parameter_offsets(architecture.units[i], logical[i]));
  }
  return logical;
}

StateReader master_reader(const Architecture& architecture, WeightsOfUnit weights, Bytes room) {
  const auto ahead =
      std::make_shared<WeightsAhead>(logical_elements(architecture), std::move(weights), room);
  return
      [ahead](std::int32_t unit, StatePart /*master*/, std::int64_t offset, std::span<float> out) {
        host_copy(out.data(), ahead->of(unit).data() + offset, std::ssize(std::as_bytes(out)),
                  memory_threads());
      };
}

void load_state(const RankContext& context, const std::vector<std::int64_t>& logical,
                std::int64_t steps, const StartState& start, const OnProgress& progress) {
  StateLoader loader(context, steps, start);
  const std::int64_t total = std::accumulate(logical.begin(), logical.end(), std::int64_t{0});
  std::int64_t done = 0;
  for (std::size_t unit = 0; unit < logical.size(); ++unit) {
    if (progress) progress("loading the state", done, total);
    loader.load(static_cast<std::int32_t>(unit), logical[unit]);
    done += logical[unit];
  }
}

void keep_state_of_start(const RankContext& context, std::int64_t steps) {
  for_each_kept(context, steps, [&](const ChunkMemory& memory, const AdamStateView& copy) {
    for_each_state_array(copy, memory.state, memory.elements, copier(context.device));
  });
}

void restore_kept_state(const RankContext& context, std::int64_t steps) {
  for_each_kept(context, steps, [&](const ChunkMemory& memory, const AdamStateView& copy) {
    for_each_array(memory.state, copy, memory.elements, copier(context.device));
  });
}

void publish_parameters(const RankContext& context, std::int64_t steps) {
  for (std::size_t unit = 0; unit < context.program.layouts.size(); ++unit) {
    const Sharding sharding = context.plan.units[unit].sharding;
    const UnitLayout& layout = context.program.layouts[unit];
    for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
      const ChunkMemory& memory = context.memory.chunks(static_cast<std::int32_t>(unit))[c];
      const Bytes bytes = context.bytes_of(memory.elements);
      if (memory.device_parameters != nullptr) {
        context.device.copy_now(memory.device_parameters, kept_parameters(memory, steps), bytes);
      }
      if (sharding != Sharding::OptimizerSharded || layout.chunks[c].owned) continue;
      std::vector<std::byte> whole(static_cast<std::size_t>(bytes * context.program.world_size));
      const Bytes own = context.bytes_of(memory.offset - layout.chunks[c].offset);
      std::copy_n(kept_parameters(memory, steps), bytes, whole.begin() + own);
      context.host_collectives.all_gather(whole.data(), bytes);
      std::byte* const storage = context.memory.parameters(static_cast<std::int32_t>(unit), -1);
      context.device.copy_now(storage + context.bytes_of(layout.chunks[c].place), whole.data(),
                              std::ssize(whole));
    }
  }
}

std::vector<StateRange> ranges_to_save(const RankContext& context,
                                       const std::vector<std::int64_t>& logical, std::int64_t steps,
                                       Device& device) {
  std::vector<StateRange> ranges;
  const int world_size = context.program.world_size;
  for (std::size_t u = 0; u < logical.size(); ++u) {
    const auto unit = static_cast<std::int32_t>(u);
    for (std::size_t c = 0; c < context.memory.chunks(unit).size(); ++c) {
      const ChunkMemory& memory = context.memory.chunks(unit)[c];
      const bool replicated = context.plan.units[u].sharding == Sharding::Replicated &&
                              !context.program.layouts[u].chunks[c].owned;
      // Every rank has a replicated chunk: each saves its part of it.
      const std::int64_t part = replicated ? memory.elements / world_size : memory.elements;
      const std::int64_t skip = replicated ? context.collectives.rank() * part : 0;
      const std::int64_t offset = memory.offset + skip;
      const std::int64_t elements = std::min(part, logical[u] - offset);
      if (elements <= 0) continue;
      for (const StridedRange& range :
           in_model_order(context.program.layouts[u], offset, elements)) {
        ranges.push_back({unit, range,
                          [&device, &pools = context.memory, &memory, steps,
                           first = skip + range.at](StatePart p, std::span<float> to) {
                            pools.read_part(memory, p, steps, first, to, device);
                          }});
      }
    }
  }
  return ranges;
}

std::vector<float> gather_weights(const RankContext& context, std::int32_t unit,
                                  std::int64_t logical_elements, std::int64_t steps) {
  const auto index = static_cast<std::size_t>(unit);
  const UnitLayout& layout = context.program.layouts[index];
  std::vector<float> flat(size(layout.elements));
  std::vector<float> shards;  // one chunk's, rank by rank
  for (std::size_t c = 0; c < layout.chunks.size(); ++c) {
    const ChunkMemory& memory = context.memory.chunks(unit)[c];
    const Chunk& chunk = layout.chunks[c];
    const bool whole = context.plan.units[index].sharding == Sharding::Replicated && !chunk.owned;
    shards.resize(size(chunk.elements));
    const std::int64_t own = whole ? 0 : context.collectives.rank() * memory.elements;
    context.memory.read_part(memory, StatePart::Master, steps, 0,
                             std::span(shards).subspan(size(own), size(memory.elements)),
                             context.device);
    if (!whole) context.host_collectives.all_gather(shards.data(), memory.elements * kStateBytes);
    for (std::int64_t done = 0, to = chunk.offset; done < chunk.elements;
         done += memory.elements, to += whole ? 0 : chunk.stride) {
      for (const StridedRange& range : in_model_order(layout, to, memory.elements)) {
        for (std::int64_t i = 0; i < range.count; ++i) {
          std::copy_n(shards.begin() + done + range.at + i * range.run, range.run,
                      flat.begin() + range.offset + i * range.stride);
        }
      }
    }
  }
  flat.resize(size(logical_elements));
  return flat;
}

}  // namespace athanor
