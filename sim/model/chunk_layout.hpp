// SPDX-License-Identifier: Apache-2.0
// Layout of a unit's parameters in flat storage, which is cut into chunks and shards.
#pragma once

#include "sim/model/architecture.hpp"
#include "sim/model/plan.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace athanor {

/// Parameters start at multiples of this many elements (128 bytes in fp32), so that a kernel sees
/// the same alignment under every plan and gives the same bits.
inline constexpr std::int64_t kParameterAlignment = 32;

/// Returns the multiple of elements at which a rank's part of a chunk begins and ends. Parts of
/// moments in int8 are whole blocks under every plan, so that all have the same scales; there are
/// so many that a part's scales fill whole 128 bytes, too.
[[nodiscard]] constexpr std::int64_t shard_multiple(AdamState adam_state) noexcept {
  constexpr std::int64_t kAlignedBytes = kParameterAlignment * 4;
  return adam_state == AdamState::Int8 ? kMomentBlock * (kAlignedBytes / kMomentScaleBytes)
                                       : kParameterAlignment;
}

/// Elements of a unit's flat storage, the quantum of placement and transfer. They are consecutive,
/// but where shards belong to ranks: then each shard is, in its rank's part of the storage.
struct Chunk {
  std::int64_t offset = 0;    ///< first element in the unit's flat storage
  std::int64_t elements = 0;  ///< a multiple of world_size * shard_multiple()
  Home parameters = Home::Gpu;
  Home optimizer = Home::Gpu;
  bool gpu_adam = false;     ///< see ChunkRun
  bool late_update = false;  ///< its unit is one of Plan::late_updates
  bool owned = false;        ///< each shard belongs to its rank alone (UnitPattern::owned)
  std::int64_t stride = 0;   ///< elements from one rank's shard to the next one's
  std::int64_t place = 0;    ///< first element in a rank's storage; of an owned chunk, its shard's
  [[nodiscard]] std::int64_t shard_elements(int world_size) const noexcept {
    return elements / world_size;
  }
};

/// A matrix of which each rank owns columns. Flat storage has them rank by rank, so that a rank's
/// part is consecutive; within it, elements have their order.
struct ColumnCut {
  std::int64_t offset = 0;  ///< first element, in flat storage and in the model's order
  std::int64_t rows = 0, columns = 0;
  std::int64_t width = 0;  ///< columns of one rank
};

/// Layout of one unit under one plan.
struct UnitLayout {
  std::vector<std::int64_t> parameter_offsets;  ///< element offset of each owned parameter
  std::int64_t elements = 0;       ///< flat storage, padding of the last chunk included
  std::vector<Chunk> chunks;       ///< empty for a unit without parameters
  std::int64_t held_elements = 0;  ///< storage that a rank computes with: all but what others own
  std::vector<ColumnCut> column_cuts;  ///< ascending
};

/// Elements of flat storage in the model's order, which checkpoints and files have: `count` runs of
/// `run` elements from `offset` on, `stride` apart.
struct StridedRange {
  std::int64_t offset = 0;
  std::int64_t run = 0, count = 1, stride = 0;
  std::int64_t at = 0;  ///< first element in the range of flat storage
  [[nodiscard]] std::int64_t elements() const noexcept { return run * count; }
};

/// Element offset of each parameter of `unit`, and in `elements` the sum before chunk padding.
[[nodiscard]] std::vector<std::int64_t> parameter_offsets(const Unit& unit, std::int64_t& elements);

/// Number of chunks that `unit` has. The last one is cut short, so padding never exceeds
/// world_size * shard_multiple() elements. What ranks own has chunks of its own.
[[nodiscard]] std::int64_t num_chunks(const Unit& unit, std::int64_t chunk_elements, int world_size,
                                      const UnitPattern& pattern = weights_travel(),
                                      AdamState adam_state = AdamState::Float32);

/// Number of chunks that `plan` has of `unit`, which it treats as `unit_plan` says.
[[nodiscard]] std::int64_t num_chunks(const Unit& unit, const UnitPlan& unit_plan,
                                      const Plan& plan);

/// Returns `unit` with those of its owned parameters that belong to `rank`, as that rank holds it.
[[nodiscard]] Unit part_of_rank(const Unit& unit, const UnitPattern& pattern, int rank,
                                int world_size);

/// Returns where the model has the `elements` elements of flat storage from `offset` on. It is one
/// run but in matrices of which ranks own columns.
[[nodiscard]] std::vector<StridedRange> in_model_order(const UnitLayout& layout,
                                                       std::int64_t offset, std::int64_t elements);

/// Returns where in a unit's flat storage owned ranges would have to begin or end otherwise, so
/// that every rank's part begins aligned; nothing where all is well.
[[nodiscard]] std::optional<std::int64_t> unaligned_cut(const Unit& unit,
                                                        const UnitPattern& pattern, int world_size);

/// Layout of every unit. The plan must have been validated.
[[nodiscard]] std::vector<UnitLayout> layout_units(const Architecture& architecture,
                                                   const Plan& plan);

}  // namespace athanor
