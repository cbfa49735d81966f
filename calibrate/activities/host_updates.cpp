// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/host_updates.hpp"

#include "calibrate/bench/rotating_buffer.hpp"
#include "executor/backend/host_memory.hpp"
#include "executor/cpu/parallel_blocks.hpp"
#include "executor/cpu/reductions.hpp"
#include "sim/base/host.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

namespace athanor {
namespace {

constexpr std::int64_t kAlignment = 64;
/// Number of random values, which repeat: drawing one for each element would take longer than
/// measuring.
constexpr std::int64_t kRandom = 1 << 22;

}  // namespace

class HostUpdates::Memory {
 public:
  explicit Memory(std::int64_t length)
      : length_(length),
        moments_(allocate_host_memory(kMoments * length * static_cast<Bytes>(sizeof(float)))),
        halves_(allocate_host_memory(kHalves * length * static_cast<Bytes>(sizeof(std::int16_t)))) {
    const std::vector<float> values = random_floats(std::min(length, kRandom), 1);
    const Slice all = slice(0, length);
    parallel_blocks(length, usable_cores(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) {
        const SplitMaster master = split_master(values[static_cast<std::size_t>(at % kRandom)]);
        all.state.parameters[at] = master.parameter;
        all.state.rests[at] = master.rest;
        all.gradient[static_cast<std::size_t>(at)] = master.parameter;
      }
    });
  }

  struct Slice {
    AdamStateView state;
    std::span<BFloat16Bits> gradient;
  };
  /// Returns `elements` elements of every buffer, from `first` on.
  [[nodiscard]] Slice slice(std::int64_t first, std::int64_t elements) const {
    auto* const moments = reinterpret_cast<float*>(moments_.get()) + first;
    auto* const halves = reinterpret_cast<BFloat16Bits*>(halves_.get()) + first;
    return {{.parameters = halves,
             .rests = reinterpret_cast<std::int16_t*>(halves_.get()) + length_ + first,
             .first_moment = moments,
             .second_moment = moments + length_},
            {halves + 2 * length_, static_cast<std::size_t>(elements)}};
  }

 private:
  static constexpr int kMoments = 2;
  static constexpr int kHalves = 3;  ///< the master has two, the gradient is one
  static_assert(kMoments * sizeof(float) + kHalves * sizeof(std::int16_t) == kBytesPerElement);

  std::int64_t length_;
  MemoryBlock moments_, halves_;
};

/// Goes through `length` elements of a memory, from `first` on.
class HostUpdates::Rotation {
 public:
  Rotation(std::shared_ptr<const Memory> memory, std::int64_t first, std::int64_t length)
      : memory_(std::move(memory)), first_(first), offsets_(length, kAlignment) {}

  [[nodiscard]] Memory::Slice next(std::int64_t elements) {
    return memory_->slice(first_ + offsets_.next(elements), elements);
  }
  [[nodiscard]] std::shared_ptr<Rotation> part(int index, int count) const {
    const std::int64_t length = offsets_.length() / count / kAlignment * kAlignment;
    return std::make_shared<Rotation>(memory_, first_ + index * length, length);
  }

 private:
  std::shared_ptr<const Memory> memory_;
  std::int64_t first_;
  RotatingBuffer offsets_;
};

HostUpdates::HostUpdates(std::int64_t length)
    : HostUpdates(std::make_shared<Rotation>(std::make_shared<Memory>(length), 0, length)) {}

HostUpdates::HostUpdates(std::shared_ptr<Rotation> rotation) : rotation_(std::move(rotation)) {}

HostUpdates HostUpdates::part(int index, int count) const {
  return HostUpdates(rotation_->part(index, count));
}

Activity HostUpdates::adam(std::int64_t elements, int threads) const {
  return [rotation = rotation_, elements, threads] {
    const Memory::Slice slice = rotation->next(elements);
    adamw(slice.state, std::span<const BFloat16Bits>(slice.gradient), AdamCoefficients{}, threads);
  };
}

Activity HostUpdates::adam_beside(std::int64_t elements, int threads) const {
  return [rotation = rotation_, elements, threads] {
    const Memory::Slice old = rotation->next(elements);
    const Memory::Slice slice = rotation->next(elements);
    AdamStateView updated = slice.state;
    BFloat16Bits* const old_parameters = std::exchange(updated.parameters, old.state.parameters);
    adamw_out_of_place(old.state, updated, std::span<const BFloat16Bits>(slice.gradient),
                       AdamCoefficients{}, threads, old_parameters);
  };
}

Activity HostUpdates::square_sum(std::int64_t elements) const {
  auto result = std::make_shared<ExactSum>();
  return [rotation = rotation_, elements, result] {
    *result = athanor::square_sum(std::span<const BFloat16Bits>(rotation->next(elements).gradient));
  };
}

}  // namespace athanor
