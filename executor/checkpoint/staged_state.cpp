// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/staged_state.hpp"

#include "executor/cpu/host_copy.hpp"

#include <cstddef>
#include <span>

namespace athanor {
namespace {

constexpr auto kParts = static_cast<std::int64_t>(kStateParts.size());

Bytes bytes_of(const std::vector<StateRange>& ranges) {
  Bytes bytes = 0;
  for (const StateRange& range : ranges) bytes += range.at.elements() * kParts * kStateBytes;
  return bytes;
}

/// The copy of a range: its parts one after the other.
StateRange staged(const StateRange& range, float* copy) {
  const std::int64_t elements = range.at.elements();
  return {range.unit, range.at, [copy, elements](StatePart part, std::span<float> to) {
            const auto place = static_cast<std::int64_t>(part) * elements;
            host_copy(to.data(), copy + place, elements * kStateBytes);
          }};
}

}  // namespace

StagedState::StagedState(Device& device, const std::vector<StateRange>& ranges)
    : memory_(device.allocate_pinned(bytes_of(ranges))) {}

std::vector<StateRange> StagedState::copy(const std::vector<StateRange>& ranges) {
  auto* next = reinterpret_cast<float*>(memory_.get());
  std::vector<StateRange> copies;
  copies.reserve(ranges.size());
  for (const StateRange& range : ranges) {
    const std::int64_t elements = range.at.elements();
    for (const StatePart part : kStateParts) {
      range.read(part, {next + static_cast<std::int64_t>(part) * elements,
                        static_cast<std::size_t>(elements)});
    }
    copies.push_back(staged(range, next));
    next += kParts * elements;
  }
  return copies;
}

Bytes staged_bytes(const Program& program) noexcept {
  Bytes bytes = 0;
  for (const UnitLayout& layout : program.layouts) {
    for (const Chunk& chunk : layout.chunks) {
      bytes += chunk.shard_elements(program.world_size) * kParts * kStateBytes;
    }
  }
  return bytes;
}

}  // namespace athanor
