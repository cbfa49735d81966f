// SPDX-License-Identifier: Apache-2.0
// The few numbers that operations of one step leave for each other and for the metrics: losses,
// square sums, the clipping factor. In device memory where device lanes use them, in pinned memory
// where the host does, so that no lane waits for the host to read a number.
#pragma once

#include "executor/backend/device.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <span>
#include <vector>

namespace athanor {

class StepScalars {
 public:
  /// Not counted as device memory: a few kilobytes.
  StepScalars(const Program& program, const Plan& plan, int rank, Device& device);

  /// Where a SquareSum puts its result: beside the processor of its lane.
  [[nodiscard]] ExactSum* square_sum(const Program& program, std::int32_t operation) const;
  /// This rank's square sums, those of the host behind those of the device: device memory.
  [[nodiscard]] std::span<ExactSum> own_square_sums() const;
  [[nodiscard]] std::span<ExactSum> host_square_sums() const;  ///< pinned
  /// One square sum per rank: device memory.
  [[nodiscard]] std::span<ExactSum> square_sums_of_ranks() const;
  [[nodiscard]] ClippingResult* clipping(Home home) const;

  /// This rank's loss of one micro-batch: device memory.
  [[nodiscard]] double* loss(std::int32_t micro_batch) const;
  /// Losses of every rank, [rank][micro-batch]: device memory, and what the host reads.
  [[nodiscard]] std::span<double> losses(Home home) const;
  /// Summed in the order of the samples, so that a global batch has one loss however it is split
  /// into ranks and micro-batches. Valid once Loss is done.
  [[nodiscard]] double mean_loss() const;

 private:
  void place(std::byte* device, std::byte* pinned, Bytes& device_bytes, Bytes& pinned_bytes);

  std::size_t ranks_, rank_, micro_batches_;
  std::size_t device_sums_ = 0, host_sums_ = 0;
  std::vector<std::int32_t> place_of_;  ///< by operation: index of its sum, -1 = not counted
  MemoryBlock device_, pinned_;
  ExactSum *own_sums_ = nullptr, *pinned_sums_ = nullptr, *rank_sums_ = nullptr;
  ClippingResult *device_clipping_ = nullptr, *pinned_clipping_ = nullptr;
  double *device_losses_ = nullptr, *pinned_losses_ = nullptr;
};

}  // namespace athanor
