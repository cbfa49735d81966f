// SPDX-License-Identifier: Apache-2.0
// The few numbers that operations of one step leave for each other and for the metrics: losses,
// square sums, the clipping factor. They lie in device memory for device lanes and in pinned memory
// for the host, so that no lane waits for the host to read a number.
#pragma once

#include "executor/backend/device.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/program.hpp"

#include <span>
#include <vector>

namespace athanor {

/// Constants in the mark of a step, besides what lanes compute (see executor/snapshot).
struct UpdateFacts {
  std::int64_t steps = 0;  ///< done with these updates
  AdamCoefficients coefficients;
};

class StepScalars {
 public:
  /// Allocates a few kilobytes, which do not count as device memory.
  StepScalars(const Program& program, const Plan& plan, int rank, Device& device);

  /// Destination of a SquareSum operation, in the memory of its lane's processor.
  [[nodiscard]] ExactSum* square_sum(const Program& program, std::int32_t operation) const;
  /// This rank's square sums in device memory: the device's own, then room for the host's.
  [[nodiscard]] std::span<ExactSum> own_square_sums() const;
  /// The host's square sums, in pinned memory.
  [[nodiscard]] std::span<ExactSum> host_square_sums() const;
  /// One square sum per rank, [rank], in device memory.
  [[nodiscard]] std::span<ExactSum> square_sums_of_ranks() const;
  [[nodiscard]] ClippingResult* clipping(Home home) const;

  /// Constants of the updates, in pinned memory and on its way to the mark in device memory.
  [[nodiscard]] UpdateFacts* facts(Home home) const;
  /// One number per rank, [rank], in device memory, for ranks that wait for each other.
  [[nodiscard]] std::span<double> fence() const;

  /// This rank's loss of one micro-batch, in device memory.
  [[nodiscard]] double* loss(std::int32_t micro_batch) const;
  /// Losses of every rank, [rank][micro-batch], in device memory (Gpu) or pinned memory (Host). A
  /// rank's wish to stop follows its losses, so that it costs no collective of its own.
  [[nodiscard]] std::span<double> losses(Home home) const;
  /// Loss of one rank's micro-batch. Valid once Loss is done.
  [[nodiscard]] double gathered_loss(int rank, std::int32_t micro_batch) const;
  /// Mean loss of the step. Losses are summed in the order of the samples, so that a global batch
  /// has one loss however it is split into ranks and micro-batches. Valid once Loss is done.
  [[nodiscard]] double mean_loss() const;
  /// Mean of losses that another process gathered.
  [[nodiscard]] double mean_of(std::span<const double> losses) const;

  /// This rank's wish to stop after this step (0 or 1), in pinned memory and at its place among the
  /// losses in device memory.
  [[nodiscard]] double* own_stop_wish() const noexcept { return pinned_wish_; }
  [[nodiscard]] double* stop_wish_slot() const;
  /// Rows beyond the capacity of the fullest exchange of this rank, in device memory: a number
  /// below 0 where all had room. Null where no tokens travel.
  [[nodiscard]] double* excess_rows_slot() const;
  /// The largest of all ranks' excess; 0 where all rows had room. Valid once Loss is done.
  [[nodiscard]] double excess_rows() const;
  /// Throws Error, with the way out, where some rows had no room in `step`, of which `name` says
  /// the kind. What the step computed is then wrong.
  void require_room(const char* name, std::int64_t step) const;
  /// Whether some rank wished to stop. Valid once Loss is done, and then equal on all ranks.
  [[nodiscard]] bool is_stop_wished() const;

 private:
  void lay_out(std::byte* device, std::byte* pinned, Bytes& device_bytes, Bytes& pinned_bytes);

  [[nodiscard]] std::size_t values_per_rank() const noexcept {
    return micro_batches_ + (travels_ ? 2 : 1);
  }

  std::size_t ranks_, rank_, micro_batches_;
  bool travels_;  ///< whether tokens travel: an excess of rows follows the wish to stop
  std::size_t device_sums_ = 0, host_sums_ = 0;
  std::vector<std::int32_t> sum_index_;  ///< [operation]: index of its sum, -1 = not counted
  MemoryBlock device_, pinned_;
  ExactSum *own_sums_ = nullptr, *pinned_sums_ = nullptr, *rank_sums_ = nullptr;
  UpdateFacts *device_facts_ = nullptr, *pinned_facts_ = nullptr;
  double* fence_ = nullptr;
  ClippingResult *device_clipping_ = nullptr, *pinned_clipping_ = nullptr;
  double *device_losses_ = nullptr, *pinned_losses_ = nullptr, *pinned_wish_ = nullptr;
};

}  // namespace athanor
