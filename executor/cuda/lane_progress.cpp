// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/lane_progress.hpp"

namespace athanor::cuda {
namespace {

/// Bytes per counter: a cache line, so that a lane that writes does not slow a thread that polls
/// another.
constexpr Bytes kCounterStride = 64;

}  // namespace

LaneProgress::LaneProgress(const Program& program, std::int64_t first_step)
    : first_step_(first_step), counters_(kNumLanes * kCounterStride) {
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    std::vector<std::int32_t>& lane = operations_[lane_index(program.operations[i].lane)];
    ordinal_.push_back(static_cast<std::int64_t>(lane.size()));
    lane.push_back(static_cast<std::int32_t>(i));
  }
}

std::int64_t LaneProgress::number(const Program& program, std::int32_t operation,
                                  std::int64_t step) const {
  const auto i = static_cast<std::size_t>(operation);
  const auto per_step = static_cast<std::int64_t>(operations(program.operations[i].lane).size());
  return (step - first_step_) * per_step + ordinal_[i] + 1;
}

std::int64_t LaneProgress::last_number(Lane lane, std::int64_t step) const {
  return (step + 1 - first_step_) * static_cast<std::int64_t>(operations(lane).size());
}

LaneProgress::NumberedOperation LaneProgress::operation_at(Lane lane, std::int64_t number) const {
  const auto per_step = static_cast<std::int64_t>(operations(lane).size());
  const std::int64_t before = number - 1;
  return {operations(lane)[static_cast<std::size_t>(before % per_step)],
          first_step_ + before / per_step};
}

std::uint32_t* LaneProgress::counter(Lane lane) const {
  return reinterpret_cast<std::uint32_t*>(counters_.data() +
                                          static_cast<Bytes>(lane_index(lane)) * kCounterStride);
}

bool LaneProgress::has_reached(Lane lane, std::int64_t number) const {
  const std::uint32_t now =
      std::atomic_ref<std::uint32_t>(*counter(lane)).load(std::memory_order_acquire);
  return static_cast<std::int32_t>(now - static_cast<std::uint32_t>(number)) >= 0;
}

void LaneProgress::set(Lane lane, std::int64_t number) const {
  std::atomic_ref<std::uint32_t>(*counter(lane))
      .store(static_cast<std::uint32_t>(number), std::memory_order_release);
}

}  // namespace athanor::cuda
