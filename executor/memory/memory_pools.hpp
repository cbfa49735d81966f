// SPDX-License-Identifier: Apache-2.0
// Everything that a run keeps in memory from the first step to the last: cache slots, gradient
// buffers, parameters, gradients and optimizer state. Allocated once, sized from the program.
#pragma once

#include "executor/backend/device.hpp"
#include "executor/backend/scratch_file.hpp"
#include "executor/memory/shared_memory.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace athanor {

enum class StatePart { Master, FirstMoment, SecondMoment };
inline constexpr std::array kStateParts{StatePart::Master, StatePart::FirstMoment,
                                        StatePart::SecondMoment};

inline constexpr Bytes kStateBytes = 4;  ///< bytes of one element of one part as it is read: fp32

/// Memory of one update: old and new state (equal where the old is not kept), the gradient, and
/// where old parameters are kept.
struct UpdateMemory {
  AdamStateView from, to;
  std::byte* gradient = nullptr;
  BFloat16Bits* old_parameters = nullptr;
};

/// This rank's shard of one chunk: all of it where the unit is Replicated, else 1 / world_size.
/// Pointers are null where the plan keeps nothing there.
struct ChunkMemory {
  std::int64_t offset = 0;      ///< first element held, in the unit's flat storage
  std::int64_t elements = 0;    ///< elements held
  std::int64_t place = 0;       ///< first element held, in this rank's storage of the unit
  std::int64_t sum_offset = 0;  ///< first of them in an accumulator
  std::byte* device_parameters = nullptr;  ///< in compute dtype: own shard, or own place in the
                                           ///< storage of a unit that is whole on this rank
  std::byte* host_parameters = nullptr;    ///< pinned, compute dtype; optimizer on the host only
  std::byte* other_host_parameters = nullptr;  ///< likewise: those of odd steps, where there are
                                               ///< versions
  std::byte* gradient = nullptr;  ///< Program::gradient_dtype, beside the optimizer; null
                                  ///< where it passes through a buffer
  AdamStateView state;  ///< its master, or the upper half of it, is the parameters beside the
                        ///< optimizer; null where in the file
  AdamStateView other;  ///< where updates keep the old state, a second copy: the old in odd steps.
                        ///< It has the same parameters, except where there are versions
  std::array<AdamStateView, 2> ward;    ///< copies of the ward's versions of this chunk, the even
                                        ///< ones first; null where the plan keeps none
  std::array<AdamStateView, 2> copies;  ///< copies, in pinned memory, of a state on the device: the
                                        ///< even ones first; null where the plan keeps none
  std::int64_t steps_each = 1;          ///< steps for each of these
  BFloat16Bits* old_parameters = nullptr;  ///< beside `other`: those before a speculative update
  Bytes file_offset = -1;                  ///< range in the file; -1: everything is in memory
  Bytes file_parameter_bytes = 0;          ///< parameters, ahead of the state in the file
  Bytes file_gradient_offset = -1;  ///< from file_offset, behind the state; -1: not in the file

  /// Current state after `steps` steps of training.
  [[nodiscard]] const AdamStateView& state_after(std::int64_t steps) const noexcept {
    return other.has_moments() && steps % 2 == 1 ? other : state;
  }
  /// Place of the copy of the ward's version after `steps` steps of training.
  [[nodiscard]] const AdamStateView& ward_after(std::int64_t steps) const noexcept {
    return ward[static_cast<std::size_t>(steps / steps_each % 2)];
  }
  /// Place of the copy of the state after `steps` steps of training.
  [[nodiscard]] const AdamStateView& copy_after(std::int64_t steps) const noexcept {
    return copies[static_cast<std::size_t>(steps / steps_each % 2)];
  }
  /// Version in host memory of the state after `steps` steps of training: the state itself, or the
  /// copy of one on the device.
  [[nodiscard]] const AdamStateView& version_after(std::int64_t steps) const noexcept {
    return copies.front().has_moments() ? copy_after(steps) : state_after(steps);
  }
  /// Parameters on the host after `steps` steps of training.
  [[nodiscard]] std::byte* host_parameters_after(std::int64_t steps) const noexcept {
    return other_host_parameters != nullptr && steps % 2 == 1 ? other_host_parameters
                                                              : host_parameters;
  }
};

/// Memory of one rank: one block each of device, pinned and pageable host memory, and one file on
/// NVMe. All of it is zero at first.
class MemoryPools {
 public:
  /// A plan that keeps optimizer state on NVMe puts its file into `nvme_folder`. Throws
  /// OutOfDeviceMemory when the device's limit is too small, and Error when the file cannot be made
  /// or the sizes are not those of Program::static_buffers.
  /// `shared`, if there is one, holds all host memory; its content stays as it is.
  MemoryPools(const Program& program, const Plan& plan, int rank, Device& device,
              const std::string& nvme_folder, const SharedMemory* shared = nullptr);

  /// Start of the unit's flat storage: in the cache slot, or, for slot -1, its own place on the
  /// device. Null for a unit without parameters.
  [[nodiscard]] std::byte* parameters(std::int32_t unit, std::int32_t slot) const;
  /// Start of the unit's flat gradient in a buffer of its class pool.
  [[nodiscard]] std::byte* gradients(std::int32_t unit, std::int32_t buffer) const;
  [[nodiscard]] Bytes gradient_bytes(std::int32_t unit) const;
  /// Sum of the chunk's gradients in the accumulator of `op`.
  [[nodiscard]] float* gradient_sum(const Operation& op) const;
  /// Pinned memory for the output that `copy`, an OutputD2H or OutputH2D, moves.
  [[nodiscard]] std::byte* host_output(const Operation& copy) const;
  [[nodiscard]] const ChunkMemory& chunk(std::int32_t unit, std::int32_t chunk) const;
  [[nodiscard]] const std::vector<ChunkMemory>& chunks(std::int32_t unit) const;

  /// Memory that `adam` works on after `steps` steps: the chunk's own, or a state or stream buffer.
  [[nodiscard]] UpdateMemory update_memory(const Operation& adam, std::int64_t steps) const;
  /// The stream buffer of `op`, laid out for its chunk.
  [[nodiscard]] UpdateMemory stream_buffer(const Operation& op) const;
  /// Address of the shard that `fetch` copies after `steps` steps: pinned memory of its own, or a
  /// parameter buffer.
  [[nodiscard]] const std::byte* fetched_from(const Operation& fetch, std::int64_t steps) const;
  /// Address to which a GradD2H copies its shard: memory of its own, or a buffer for gradients.
  [[nodiscard]] std::byte* gradient_of(const Operation& op) const;
  /// Place of the ward's shard in the receive buffer for `op`, a PeerCopy or PeerStore; null where
  /// it comes without one.
  [[nodiscard]] std::byte* received(const Operation& op) const;
  /// Writes the buffer that `op`, a GradWrite, names to its chunk's range of the file.
  void write_gradient(const Operation& op) const;
  /// Reads a chunk's parameters from the file into the buffer that `op`, a ParamRead, names.
  void read_parameters(const Operation& op) const;
  /// Reads a chunk's state from the file into the state buffer that `op` names, or writes it back.
  void read_state(const Operation& op) const;
  void write_state(const Operation& op) const;
  /// Reads elements [skip, skip + to.size()) of one part of a chunk, from wherever it is, and
  /// widens moments in bf16 or int8. Call it between steps; `steps` of them are done.
  void read_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps, std::int64_t skip,
                 std::span<float> to, Device& device) const;
  /// Writes elements [skip, skip + from.size()) of one part, to wherever it is; the master to the
  /// parameters, too. Moments in bf16 and int8 are rounded to nearest; those in int8 come in whole
  /// blocks. Call it between steps; `steps` are done.
  void write_part(const ChunkMemory& chunk, StatePart part, std::int64_t steps, std::int64_t skip,
                  std::span<const float> from, Device& device) const;
  /// Makes both moments of a chunk zero, likewise.
  void clear_moments(const ChunkMemory& chunk, std::int64_t steps, Device& device) const;

  [[nodiscard]] const TierBytes& bytes() const noexcept { return bytes_; }
  /// Start of the pinned memory of a plan that takes snapshots, where its log is.
  [[nodiscard]] std::byte* snapshot_log() const noexcept { return snapshot_log_; }

 private:
  class Builder;
  [[nodiscard]] static std::size_t index(std::int64_t value);  ///< `value` is not negative
  [[nodiscard]] AdamStateView state_in_buffer(const ChunkMemory& chunk, std::byte* buffer) const;
  [[nodiscard]] bool splits_master() const noexcept { return element_bytes_ != kStateBytes; }
  [[nodiscard]] bool has_int8_moments() const noexcept { return adam_state_ == AdamState::Int8; }
  [[nodiscard]] bool has_bf16_moments() const noexcept {
    return adam_state_ == AdamState::BFloat16;
  }
  /// Places both moments of a state of `elements` elements, and their scales behind them.
  void set_moments(AdamStateView& state, std::byte* moments, std::int64_t elements) const;
  /// Offset of a part in a state buffer, and in the file from file_offset on: of the lower half, if
  /// the master is split. The part is one that the chunk does not hold in memory.
  [[nodiscard]] Bytes offset_of(const ChunkMemory& chunk, StatePart part) const;
  /// Reads from `memory`, or from an offset in the file where that is null. Also writes.
  void read_from(const void* memory, Bytes offset, std::span<std::byte> to, Device& device) const;
  void write_to(void* memory, Bytes offset, std::span<const std::byte> from, Device& device) const;
  void read_split_master(const ChunkMemory& chunk, std::int64_t steps, std::int64_t skip,
                         std::span<float> to, Device& device) const;
  void read_bf16_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                        std::int64_t skip, std::span<float> to, Device& device) const;
  void write_bf16_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                         std::int64_t skip, std::span<const float> from, Device& device) const;
  void read_int8_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                        std::int64_t skip, std::span<float> to, Device& device) const;
  void write_int8_moment(const ChunkMemory& chunk, StatePart part, std::int64_t steps,
                         std::int64_t skip, std::span<const float> from, Device& device) const;
  /// Reads the scales of the blocks from `block` on.
  void read_scales(const ChunkMemory& chunk, std::int64_t steps, std::int64_t block,
                   std::span<MomentScales> to, Device& device) const;
  [[nodiscard]] Bytes scales_offset(const ChunkMemory& chunk, std::int64_t block) const;
  void write_master(const ChunkMemory& chunk, std::int64_t steps, std::int64_t skip,
                    std::span<const float> from, Device& device) const;

  Bytes element_bytes_;
  AdamState adam_state_;
  Bytes moment_bytes_;  ///< bytes of one moment of an element, without its scale
  std::vector<std::int64_t> unit_elements_;
  std::vector<std::int32_t> pool_of_;
  std::vector<std::vector<std::byte*>> slots_, gradient_buffers_, accumulators_;  // [pool][index]
  std::vector<std::byte*> storages_;                                              // [unit]
  std::vector<std::vector<std::byte*>> host_outputs_;  // [unit][member of a group]
  std::vector<std::vector<ChunkMemory>> chunks_;       // [unit][chunk]
  std::vector<std::byte*> state_buffers_, stream_buffers_, parameter_buffers_, staged_gradients_;
  std::byte *snapshot_log_ = nullptr, *receive_buffer_ = nullptr;
  TierBytes bytes_;
  MemoryBlock device_, pinned_, host_;
  std::optional<ScratchFile> file_;
};

/// Memory that a program takes before its first step, as it accounts for it.
[[nodiscard]] TierBytes static_bytes(const Program& program) noexcept;

/// Bytes of the shared memory that a rank of a plan with snapshots takes: pinned memory first, then
/// the rest of host memory.
[[nodiscard]] Bytes shared_bytes(const TierBytes& memory) noexcept;

}  // namespace athanor
