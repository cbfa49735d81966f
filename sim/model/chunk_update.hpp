// SPDX-License-Identifier: Apache-2.0
// How a chunk is updated under a plan: when its update runs, and where its gradient waits for it.
#pragma once

#include "sim/model/chunk_layout.hpp"
#include "sim/model/plan.hpp"

#include <algorithm>
#include <compare>
#include <vector>

namespace athanor {

/// Whether the update of `chunk` is speculative: it runs before the norm is known.
[[nodiscard]] constexpr bool speculates(const Plan& plan, const Chunk& chunk) noexcept {
  return plan.clipping == Clipping::Speculate && chunk.optimizer == Home::Host && !chunk.gpu_adam &&
         !chunk.late_update && plan.schedule.optimizer == OptimizerStart::Overlapped;
}

/// Whether state in host memory has versions.
[[nodiscard]] constexpr bool keeps_versions(Snapshot snapshot) noexcept {
  return snapshot == Snapshot::Versions || snapshot == Snapshot::Copy;
}

/// Whether each step leaves the state of `chunk` from which it started, and writes a version of its
/// own, parameters included.
[[nodiscard]] constexpr bool has_versions(const Plan& plan, const Chunk& chunk) noexcept {
  return keeps_versions(plan.snapshot) && chunk.optimizer == Home::Host && !chunk.gpu_adam;
}

/// Whether each step copies the state of `chunk` from which it starts from the GPU to host memory.
[[nodiscard]] constexpr bool has_state_copies(const Plan& plan, const Chunk& chunk) noexcept {
  return plan.snapshot == Snapshot::Copy && chunk.optimizer == Home::Gpu;
}

/// Whether the rank's peer keeps a copy of its versions of `chunk`, in place or copied. What every
/// rank has whole needs none.
[[nodiscard]] constexpr bool has_peer_copy(const Plan& plan, const Chunk& chunk,
                                           Sharding sharding) noexcept {
  return plan.snapshot_copies > 1 && (has_versions(plan, chunk) || has_state_copies(plan, chunk)) &&
         (sharding != Sharding::Replicated || chunk.owned);
}

/// Whether an update of `chunk` writes its new state beside the old one, which it keeps.
[[nodiscard]] constexpr bool updates_beside(const Plan& plan, const Chunk& chunk) noexcept {
  return speculates(plan, chunk) || has_versions(plan, chunk);
}

/// Whether the CPU updates `chunk` during backward, as its gradient arrives. Such updates run in
/// the order in which backward makes gradients.
[[nodiscard]] constexpr bool updates_within_backward(const Plan& plan,
                                                     const Chunk& chunk) noexcept {
  if (chunk.late_update || chunk.gpu_adam || plan.snapshot == Snapshot::Redo) return false;
  if (plan.clipping != Clipping::None) return speculates(plan, chunk);
  return off_gpu(chunk.optimizer) && plan.schedule.optimizer == OptimizerStart::Overlapped;
}

/// Whether the device sums the squares of a gradient on its way to state in `optimizer`. It sums
/// them hundreds of times as fast as the host, and can where the gradient is whole on the device
/// before it goes: micro-batches are not added up on the host.
[[nodiscard]] constexpr bool sums_squares_as_gradients_pass(const Plan& plan,
                                                            Home optimizer) noexcept {
  return plan.clipping != Clipping::None && off_gpu(optimizer) && plan.accumulation == 1;
}

/// Whether the optimizer state of some chunk is not on the GPU.
[[nodiscard]] constexpr bool keeps_state_off_gpu(const std::vector<Chunk>& chunks) noexcept {
  return std::ranges::any_of(chunks, [](const Chunk& chunk) { return off_gpu(chunk.optimizer); });
}

/// Whether the device adds up the gradients of a group's micro-batches before they go to the host.
[[nodiscard]] constexpr bool accumulates_on_device(const Plan& plan) noexcept {
  return plan.micro_batch_group > 1;
}

/// Whether gradients that the CPU takes as they arrive share the buffers of Plan::gradient_ring.
[[nodiscard]] constexpr bool has_gradient_ring(const Plan& plan) noexcept {
  return plan.gradient_ring > 0 && plan.accumulation == 1 && plan.clipping == Clipping::None &&
         plan.snapshot != Snapshot::Redo;
}

/// Whether the gradient of `chunk` has no memory of its own on the host: it passes through a
/// staging buffer, from which the CPU takes it as it arrives, or from which it goes on to the file.
[[nodiscard]] constexpr bool stages_gradient(const Plan& plan, const Chunk& chunk) noexcept {
  if (plan.accumulation > 1) return false;
  if (chunk.parameters == Home::Nvme) return true;
  return has_gradient_ring(plan) && updates_within_backward(plan, chunk);
}

/// Returns the number of staging buffers for gradients, where enough chunks pass through them.
[[nodiscard]] constexpr int most_staged_gradients(const Plan& plan) noexcept {
  return has_gradient_ring(plan) ? plan.gradient_ring : plan.parameter_buffers;
}

/// Whether a staged gradient (stages_gradient) goes on to the file, because the update of `chunk`
/// waits for the end of backward or for the norm.
[[nodiscard]] constexpr bool writes_gradient_to_file(const Plan& plan,
                                                     const Chunk& chunk) noexcept {
  return stages_gradient(plan, chunk) && (plan.clipping != Clipping::None || chunk.late_update ||
                                          plan.schedule.optimizer == OptimizerStart::AfterBackward);
}

/// Parts of a shard that are in a file together with its optimizer state.
struct InFile {
  bool parameters = false, gradient = false;
  auto operator<=>(const InFile&) const = default;
};
[[nodiscard]] constexpr InFile in_file(const Plan& plan, const Chunk& chunk) noexcept {
  return {chunk.parameters == Home::Nvme, writes_gradient_to_file(plan, chunk)};
}

}  // namespace athanor
