// SPDX-License-Identifier: Apache-2.0
#include "executor/train/step_scalars.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {
namespace {

/// Divides a block into consecutive parts; for a null block it only adds up the size.
class BlockLayout {
 public:
  explicit BlockLayout(std::byte* base) : base_(base) {}
  template <typename T>
  T* add(std::size_t count) {
    constexpr Bytes kAlignment = 16;
    std::byte* const begin = base_ == nullptr ? nullptr : base_ + used_;
    used_ += round_up(static_cast<Bytes>(count * sizeof(T)), kAlignment);
    return reinterpret_cast<T*>(begin);
  }
  [[nodiscard]] Bytes used() const { return used_; }

 private:
  std::byte* base_;
  Bytes used_ = 0;
};

}  // namespace

StepScalars::StepScalars(const Program& program, const Plan& plan, int rank, Device& device)
    : ranks_(static_cast<std::size_t>(plan.world_size)),
      rank_(static_cast<std::size_t>(rank)),
      micro_batches_(static_cast<std::size_t>(plan.accumulation)),
      travels_(std::ranges::find(program.operations, OpKind::Dispatch, &Operation::kind) !=
               program.operations.end()),
      sum_index_(program.operations.size(), -1) {
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    const Operation& op = program.operations[i];
    if (op.kind != OpKind::SquareSum) continue;
    // Every rank has the whole gradient of a replicated unit, which must count once.
    const bool owned = program.layouts.at(op.unit).chunks.at(op.chunk).owned;
    const bool whole = !owned && plan.units.at(op.unit).sharding == Sharding::Replicated;
    if (whole && rank != 0) continue;
    std::size_t& sums = op.lane == Lane::CpuAdam ? host_sums_ : device_sums_;
    sum_index_[i] = static_cast<std::int32_t>(sums++);
  }
  Bytes device_bytes = 0;
  Bytes pinned_bytes = 0;
  lay_out(nullptr, nullptr, device_bytes, pinned_bytes);
  device_ = device.allocate_uncounted(device_bytes);
  pinned_ = device.allocate_pinned(pinned_bytes);
  lay_out(device_.get(), pinned_.get(), device_bytes, pinned_bytes);
  const ClippingResult unclipped;
  device.copy_now(device_clipping_, &unclipped, sizeof(unclipped));
  *pinned_clipping_ = unclipped;
}

/// Lays the numbers out. Each list of sums ends with one element for sums that do not count.
void StepScalars::lay_out(std::byte* device, std::byte* pinned, Bytes& device_bytes,
                          Bytes& pinned_bytes) {
  BlockLayout on_device(device);
  own_sums_ = on_device.add<ExactSum>(device_sums_ + host_sums_ + 1);
  rank_sums_ = on_device.add<ExactSum>(ranks_);
  device_clipping_ = on_device.add<ClippingResult>(1);
  device_losses_ = on_device.add<double>(ranks_ * values_per_rank());
  device_facts_ = on_device.add<UpdateFacts>(1);
  fence_ = on_device.add<double>(ranks_);
  device_bytes = on_device.used();
  BlockLayout on_host(pinned);
  pinned_sums_ = on_host.add<ExactSum>(host_sums_ + 1);
  pinned_clipping_ = on_host.add<ClippingResult>(1);
  pinned_losses_ = on_host.add<double>(ranks_ * values_per_rank());
  pinned_wish_ = on_host.add<double>(1);
  pinned_facts_ = on_host.add<UpdateFacts>(1);
  pinned_bytes = on_host.used();
}

ExactSum* StepScalars::square_sum(const Program& program, std::int32_t operation) const {
  const auto index = static_cast<std::size_t>(operation);
  const bool on_host = program.operations[index].lane == Lane::CpuAdam;
  const std::size_t ignored = on_host ? host_sums_ : device_sums_ + host_sums_;
  const std::size_t sum =
      sum_index_[index] < 0 ? ignored : static_cast<std::size_t>(sum_index_[index]);
  return (on_host ? pinned_sums_ : own_sums_) + sum;
}

std::span<ExactSum> StepScalars::own_square_sums() const {
  return {own_sums_, device_sums_ + host_sums_};
}

std::span<ExactSum> StepScalars::host_square_sums() const { return {pinned_sums_, host_sums_}; }

std::span<ExactSum> StepScalars::square_sums_of_ranks() const { return {rank_sums_, ranks_}; }

ClippingResult* StepScalars::clipping(Home home) const {
  return home == Home::Gpu ? device_clipping_ : pinned_clipping_;
}

double* StepScalars::loss(std::int32_t micro_batch) const {
  return device_losses_ + rank_ * values_per_rank() + static_cast<std::size_t>(micro_batch);
}

std::span<double> StepScalars::losses(Home home) const {
  return {home == Home::Gpu ? device_losses_ : pinned_losses_, ranks_ * values_per_rank()};
}

double StepScalars::gathered_loss(int rank, std::int32_t micro_batch) const {
  return pinned_losses_[static_cast<std::size_t>(rank) * values_per_rank() +
                        static_cast<std::size_t>(micro_batch)];
}

double StepScalars::mean_loss() const { return mean_of(losses(Home::Host)); }

UpdateFacts* StepScalars::facts(Home home) const {
  return home == Home::Gpu ? device_facts_ : pinned_facts_;
}

std::span<double> StepScalars::fence() const { return {fence_, ranks_}; }

double StepScalars::mean_of(std::span<const double> losses) const {
  double sum = 0;
  for (std::size_t micro_batch = 0; micro_batch < micro_batches_; ++micro_batch) {
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      sum += losses[rank * values_per_rank() + micro_batch];
    }
  }
  return sum / static_cast<double>(ranks_ * micro_batches_);
}

double* StepScalars::stop_wish_slot() const {
  return device_losses_ + rank_ * values_per_rank() + micro_batches_;
}

double* StepScalars::excess_rows_slot() const { return travels_ ? stop_wish_slot() + 1 : nullptr; }

double StepScalars::excess_rows() const {
  double excess = 0;
  for (std::size_t rank = 0; travels_ && rank < ranks_; ++rank) {
    excess = std::max(excess, pinned_losses_[(rank + 1) * values_per_rank() - 1]);
  }
  return excess;
}

void StepScalars::require_room(const char* name, std::int64_t step) const {
  if (excess_rows() <= 0) return;
  throw Error(fmt::format(
      "{} {}: a rank had {:.0f} rows more for another rank's experts than the plan has room for. "
      "No "
      "token is dropped, so the run ends. Raise the capacity of the units whose pattern is "
      "\"tokens\" (micro-batch x sequence length x experts per token is enough for any routing), "
      "or let weights travel, and go on from the last checkpoint.",
      name, step, excess_rows()));
}

bool StepScalars::is_stop_wished() const {
  for (std::size_t rank = 0; rank < ranks_; ++rank) {
    if (pinned_losses_[rank * values_per_rank() + micro_batches_] != 0) return true;
  }
  return false;
}

}  // namespace athanor
