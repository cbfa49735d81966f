// SPDX-License-Identifier: Apache-2.0
// Everything that a run keeps in memory from the first step to the last: cache slots, gradient
// buffers, parameters, gradients and optimizer state, taken once and sized from the program.
#pragma once

#include "executor/lanes/device.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace athanor {

/// What this rank holds of one chunk: the whole of it where the unit is Replicated, else
/// 1 / world_size. Pointers are null where the plan keeps nothing there.
struct ChunkMemory {
  std::int64_t offset = 0;                 ///< first element held, in the unit's flat storage
  std::int64_t elements = 0;               ///< elements held
  std::byte* device_parameters = nullptr;  ///< in compute dtype: own shard, or own place in the
                                           ///< storage of a unit that is whole on this rank
  std::byte* host_parameters = nullptr;    ///< pinned, compute dtype; optimizer on the host only
  std::byte* gradient = nullptr;           ///< Program::gradient_dtype, beside the optimizer
  BFloat16Bits* rounded = nullptr;  ///< bf16 training: where Adam writes new parameters, beside it
  float* master = nullptr;          ///< fp32 parameters; in fp32 training one of the two above
  float* first_moment = nullptr;
  float* second_moment = nullptr;
};

/// Memory of one rank. Device, pinned and pageable host memory are one block each; all of it is
/// zero at first.
class MemoryPools {
 public:
  /// Throws OutOfDeviceMemory when the device's limit is too small, and Error when the sizes are
  /// not those of Program::static_buffers.
  MemoryPools(const Program& program, const Plan& plan, int rank, Device& device);

  /// Start of the unit's flat storage: in the cache slot, or, for slot -1, its own place on the
  /// device. Null for a unit without parameters.
  [[nodiscard]] std::byte* parameters(std::int32_t unit, std::int32_t slot) const;
  /// Start of the unit's flat gradient in a buffer of its class pool.
  [[nodiscard]] std::byte* gradients(std::int32_t unit, std::int32_t buffer) const;
  [[nodiscard]] Bytes gradient_bytes(std::int32_t unit) const;
  /// Pinned memory for the output of a unit that leaves it on the host, else null.
  [[nodiscard]] std::byte* host_output(std::int32_t unit) const;
  [[nodiscard]] const ChunkMemory& chunk(std::int32_t unit, std::int32_t chunk) const;
  [[nodiscard]] const std::vector<ChunkMemory>& chunks(std::int32_t unit) const;
  [[nodiscard]] const TierBytes& bytes() const noexcept { return bytes_; }

 private:
  class Builder;

  Bytes element_bytes_;
  std::vector<std::int64_t> unit_elements_;
  std::vector<std::int32_t> pool_of_;
  std::vector<std::vector<std::byte*>> slots_, gradient_buffers_;  // [pool][index]
  std::vector<std::byte*> storages_, host_outputs_;                // [unit]
  std::vector<std::vector<ChunkMemory>> chunks_;                   // [unit][chunk]
  TierBytes bytes_;
  MemoryBlock device_, pinned_, host_;
};

}  // namespace athanor
