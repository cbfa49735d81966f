// SPDX-License-Identifier: Apache-2.0
// How a unit's parameters lie in its flat storage, and how that storage is cut into chunks and
// shards.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/plan.hpp"

#include <cstdint>
#include <vector>

namespace athanor {

/// Parameters start at multiples of this many elements (128 bytes in fp32), so that a kernel sees
/// the same alignment under every plan and gives the same bits.
inline constexpr std::int64_t kParameterAlignment = 32;

/// Consecutive elements of a unit's flat storage: the quantum of placement and transfer.
struct Chunk {
  std::int64_t offset = 0;    ///< first element in the unit's flat storage
  std::int64_t elements = 0;  ///< a multiple of world_size * kParameterAlignment
  Home parameters = Home::Gpu;
  Home optimizer = Home::Gpu;
  bool gpu_adam = false;     ///< as in ChunkRun
  bool late_update = false;  ///< of one of Plan::late_updates
  [[nodiscard]] std::int64_t shard_elements(int world_size) const noexcept {
    return elements / world_size;
  }
};

/// Whether the update of `chunk` runs before the norm is known.
[[nodiscard]] constexpr bool speculates(const Plan& plan, const Chunk& chunk) noexcept {
  return plan.clipping == Clipping::Speculate && chunk.optimizer == Home::Host && !chunk.gpu_adam &&
         !chunk.late_update && plan.schedule.optimizer == OptimizerStart::Overlapped;
}

/// Whether a gradient without a place of its own (stages_gradient) goes on to the file, because the
/// update of `chunk` waits for backward or for the norm.
[[nodiscard]] constexpr bool writes_gradient_to_file(const Plan& plan,
                                                     const Chunk& chunk) noexcept {
  return stages_gradient(plan, chunk) && (plan.clipping != Clipping::None || chunk.late_update ||
                                          plan.schedule.optimizer == OptimizerStart::AfterBackward);
}

/// One unit under one plan.
struct UnitLayout {
  std::vector<std::int64_t> parameter_offsets;  ///< element offset of each owned parameter
  std::int64_t elements = 0;  ///< flat storage, padding of the last chunk included
  std::vector<Chunk> chunks;  ///< empty for a unit without parameters
};

/// Element offset of each parameter of `unit`, and in `elements` the sum before chunk padding.
[[nodiscard]] std::vector<std::int64_t> parameter_offsets(const Unit& unit, std::int64_t& elements);

/// Number of chunks that `unit` has. The last one is cut short, so padding never exceeds
/// world_size * kParameterAlignment elements.
[[nodiscard]] std::int64_t num_chunks(const Unit& unit, std::int64_t chunk_elements,
                                      int world_size);

/// Layout of every unit. The plan must have been validated.
[[nodiscard]] std::vector<UnitLayout> layout_units(const Architecture& architecture,
                                                   const Plan& plan);

}  // namespace athanor
