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
        states_(allocate_host_memory(kStates * length * static_cast<Bytes>(sizeof(float)))),
        rounded_(
            allocate_host_memory(kRounded * length * static_cast<Bytes>(sizeof(BFloat16Bits)))) {
    const std::vector<float> values = random_floats(std::min(length, kRandom), 1);
    parallel_blocks(length, usable_cores(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) state(0)[at] = values[at % kRandom];
    });
    const auto size = static_cast<std::size_t>(length);
    convert_to_bf16(std::span(state(0), size), std::span(rounded(0), size), usable_cores());
  }

  struct Slice {
    AdamStateView state;
    std::span<const BFloat16Bits> gradient;
    BFloat16Bits* rounded;
  };
  /// Returns `elements` elements of every buffer, from `first` on.
  [[nodiscard]] Slice slice(std::int64_t first, std::int64_t elements) const {
    return {{state(0) + first, state(1) + first, state(2) + first},
            {rounded(0) + first, static_cast<std::size_t>(elements)},
            rounded(1) + first};
  }

 private:
  static constexpr int kStates = 3;   ///< master and two moments
  static constexpr int kRounded = 2;  ///< gradient and parameter
  static_assert(kStates * sizeof(float) + kRounded * sizeof(BFloat16Bits) == kBytesPerElement);

  [[nodiscard]] float* state(std::int64_t index) const {
    return reinterpret_cast<float*>(states_.get()) + index * length_;
  }
  [[nodiscard]] BFloat16Bits* rounded(std::int64_t index) const {
    return reinterpret_cast<BFloat16Bits*>(rounded_.get()) + index * length_;
  }

  std::int64_t length_;
  MemoryBlock states_, rounded_;
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
    adamw(slice.state, slice.gradient, AdamCoefficients{}, threads, slice.rounded);
  };
}

Activity HostUpdates::adam_beside(std::int64_t elements, int threads) const {
  return [rotation = rotation_, elements, threads] {
    const Memory::Slice old = rotation->next(elements);
    const Memory::Slice slice = rotation->next(elements);
    adamw_out_of_place(old.state, slice.state, slice.gradient, AdamCoefficients{}, threads,
                       slice.rounded);
  };
}

Activity HostUpdates::square_sum(std::int64_t elements) const {
  auto result = std::make_shared<ExactSum>();
  return [rotation = rotation_, elements, result] {
    *result = athanor::square_sum(rotation->next(elements).gradient);
  };
}

}  // namespace athanor
