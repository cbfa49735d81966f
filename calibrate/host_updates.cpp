// SPDX-License-Identifier: Apache-2.0
#include "calibrate/host_updates.hpp"

#include "calibrate/windows.hpp"
#include "executor/lanes/device.hpp"
#include "executor/lanes/parallel_blocks.hpp"

#include <algorithm>
#include <span>
#include <thread>
#include <vector>

namespace athanor {
namespace {

constexpr std::int64_t kAlignment = 64;
/// Values that repeat: drawing as many as the buffers hold would take longer than measuring.
constexpr std::int64_t kRandom = 1 << 22;

int filling_threads() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

class HostUpdates::Buffers {
 public:
  explicit Buffers(std::int64_t length)
      : windows_(length, kAlignment),
        states_(take_host_memory(kStates * length * static_cast<Bytes>(sizeof(float)))),
        rounded_(take_host_memory(kRounded * length * static_cast<Bytes>(sizeof(BFloat16Bits)))) {
    const std::vector<float> values = random_floats(std::min(length, kRandom), 1);
    parallel_blocks(length, filling_threads(), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t at = begin; at < end; ++at) state(0)[at] = values[at % kRandom];
    });
    const auto size = static_cast<std::size_t>(length);
    convert_to_bf16(std::span(state(0), size), std::span(rounded(0), size), filling_threads());
  }

  /// The next `elements` elements of everything.
  struct Window {
    AdamState state;
    std::span<const BFloat16Bits> gradient;
  };
  [[nodiscard]] Window next_window(std::int64_t elements) {
    const auto count = static_cast<std::size_t>(elements);
    const auto at = static_cast<std::size_t>(windows_.next(elements));
    const auto window = [at, count](auto* values) { return std::span(values + at, count); };
    return {{window(state(0)), window(state(1)), window(state(2)), window(rounded(1))},
            window(rounded(0))};
  }

 private:
  static constexpr int kStates = 3;   ///< master and two moments
  static constexpr int kRounded = 2;  ///< gradient and parameter
  static_assert(kStates * sizeof(float) + kRounded * sizeof(BFloat16Bits) == kBytesPerElement);

  [[nodiscard]] float* state(std::int64_t index) const {
    return reinterpret_cast<float*>(states_.get()) + index * windows_.length();
  }
  [[nodiscard]] BFloat16Bits* rounded(std::int64_t index) const {
    return reinterpret_cast<BFloat16Bits*>(rounded_.get()) + index * windows_.length();
  }

  Windows windows_;
  MemoryBlock states_, rounded_;
};

HostUpdates::HostUpdates(std::int64_t length) : buffers_(std::make_shared<Buffers>(length)) {}

Activity HostUpdates::adam(std::int64_t elements, int threads) {
  return [buffers = buffers_, elements, threads] {
    const Buffers::Window window = buffers->next_window(elements);
    adamw(window.state, window.gradient, AdamCoefficients{}, threads);
  };
}

Activity HostUpdates::adam_beside(std::int64_t elements, int threads) {
  return [buffers = buffers_, elements, threads] {
    const Buffers::Window old = buffers->next_window(elements);
    const Buffers::Window window = buffers->next_window(elements);
    adamw_beside(old.state, window.state, window.gradient, AdamCoefficients{}, threads);
  };
}

Activity HostUpdates::square_sum(std::int64_t elements) {
  auto result = std::make_shared<ExactSum>();
  return [buffers = buffers_, elements, result] {
    *result = athanor::square_sum(buffers->next_window(elements).gradient);
  };
}

}  // namespace athanor
