// SPDX-License-Identifier: Apache-2.0
#include "calibrate/activities/activities.hpp"

#include "calibrate/activities/matmul.hpp"
#include "executor/cpu/adam.hpp"
#include "executor/cpu/host_copy.hpp"
#include "executor/cpu/reductions.hpp"
#include "sim/base/errors.hpp"

#include <algorithm>
#include <memory>
#include <random>
#include <utility>

namespace athanor {
namespace {

// Sizes that exceed a processor's caches and take a few milliseconds.
constexpr Bytes kLaneCopy = 32 * kMiB;
constexpr std::int64_t kLaneAdam = 1 << 21;
constexpr std::int64_t kLaneMatrix = 512;

struct AdamBuffers {
  explicit AdamBuffers(std::int64_t elements)
      : master(random_floats(elements, 1)),
        first(static_cast<std::size_t>(elements)),
        second(static_cast<std::size_t>(elements)),
        gradient(random_floats(elements, 2)) {}
  [[nodiscard]] AdamStateView state() {
    return {.master = master.data(), .first_moment = first.data(), .second_moment = second.data()};
  }
  std::vector<float> master, first, second, gradient;
};

/// State with a split master.
struct SplitBuffers {
  explicit SplitBuffers(std::int64_t elements)
      : parameters(static_cast<std::size_t>(elements)),
        rests(static_cast<std::size_t>(elements)),
        first(static_cast<std::size_t>(elements)),
        second(static_cast<std::size_t>(elements)) {}
  [[nodiscard]] AdamStateView state() {
    return {.parameters = parameters.data(),
            .rests = rests.data(),
            .first_moment = first.data(),
            .second_moment = second.data()};
  }
  std::vector<BFloat16Bits> parameters;
  std::vector<std::int16_t> rests;
  std::vector<float> first, second;
};

/// Returns the number of floats that hold at least `bytes`.
std::int64_t floats_for(Bytes bytes) {
  constexpr Bytes kSize = sizeof(float);
  return round_up(bytes, kSize) / kSize;
}

}  // namespace

std::vector<float> random_floats(std::int64_t elements, unsigned seed) {
  // The values repeat after a short cycle: drawing millions would take longer than measuring.
  constexpr std::size_t kCycle = 1 << 16;
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<std::size_t>(elements));
  const std::size_t drawn = std::min(kCycle, values.size());
  std::generate_n(values.begin(), drawn, [&] { return normal(random); });
  for (std::size_t i = drawn; i < values.size(); ++i) {
    values[i] = values[i - drawn];
  }
  return values;
}

Activity copy_activity(Bytes bytes) {
  const std::int64_t elements = floats_for(bytes);
  auto from = std::make_shared<std::vector<float>>(random_floats(elements, 1));
  auto to = std::make_shared<std::vector<float>>(static_cast<std::size_t>(elements));
  return [from, to, bytes] { host_copy(to->data(), from->data(), bytes); };
}

Activity add_activity(Bytes bytes) {
  const std::int64_t elements = floats_for(bytes);
  auto sums = std::make_shared<std::vector<float>>(static_cast<std::size_t>(elements));
  auto addends = std::make_shared<std::vector<float>>(random_floats(elements, 1));
  return [sums, addends] { accumulate(*sums, std::span<const float>(*addends)); };
}

Activity adam_activity(std::int64_t elements, int threads) {
  auto buffers = std::make_shared<AdamBuffers>(elements);
  return [buffers, threads] {
    adamw(buffers->state(), std::span<const float>(buffers->gradient), AdamCoefficients{}, threads);
  };
}

Activity adam_beside_activity(std::int64_t elements, int threads) {
  auto old = std::make_shared<SplitBuffers>(elements);
  auto buffers = std::make_shared<SplitBuffers>(elements);
  auto gradient = std::make_shared<std::vector<float>>(random_floats(elements, 2));
  return [old, buffers, gradient, threads] {
    AdamStateView updated = buffers->state();
    BFloat16Bits* const old_parameters = std::exchange(updated.parameters, old->parameters.data());
    adamw_out_of_place(old->state(), updated, std::span<const float>(*gradient), AdamCoefficients{},
                       threads, old_parameters);
  };
}

Activity square_sum_activity(std::int64_t elements) {
  auto values = std::make_shared<std::vector<float>>(random_floats(elements, 1));
  auto result = std::make_shared<ExactSum>();
  return [values, result] { *result = square_sum(std::span<const float>(*values)); };
}

Activity collective_activity(Bytes bytes) {
  const auto elements = bytes / static_cast<Bytes>(sizeof(float));
  auto own = std::make_shared<std::vector<float>>(random_floats(elements, 1));
  auto other = std::make_shared<std::vector<float>>(static_cast<std::size_t>(elements));
  return [own, other, bytes] {
    host_copy(other->data(), own->data(), bytes);
    accumulate(*own, std::span<const float>(*other));
  };
}

Activity lane_activity(Lane lane, int compute_threads) {
  switch (lane) {
    case Lane::Compute:
      return matmul_activity(kLaneMatrix, compute_threads);
    case Lane::Collective:
      return collective_activity(kLaneCopy);
    case Lane::H2D:
    case Lane::D2H:
      return copy_activity(kLaneCopy);
    case Lane::CpuAdam:
      return adam_activity(kLaneAdam, 1);
    case Lane::NvmeRead:
    case Lane::NvmeWrite:
      break;
  }
  throw Error("no activity stands for this lane");
}

}  // namespace athanor
