// SPDX-License-Identifier: Apache-2.0
// The device's kernels against the host's code, bit for bit.
#include "executor/backend/host_device.hpp"
#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/reductions.hpp"
#include "executor/cuda/handles.hpp"
#include "executor/cuda/kernels/kernels.hpp"
#include "tests/cuda/device_copies.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

namespace {

using namespace athanor;
using test::DeviceCopy;

constexpr std::int64_t kElements = 100'003;  // the last vector of four is not whole

std::vector<float> random_values(unsigned seed, float scale) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0.0F, scale);
  std::vector<float> values(kElements);
  std::generate(values.begin(), values.end(), [&] { return normal(random); });
  return values;
}

std::vector<BFloat16Bits> rounded(const std::vector<float>& values) {
  std::vector<BFloat16Bits> bits(values.size());
  round_to_parameters(values, bits, 1);
  return bits;
}

/// More than one kernel takes. Every other one decays; most end within a vector, before a gap.
std::vector<AdamSegment> many_segments() {
  constexpr std::int64_t kStride = 2048, kLonger = 17;
  std::vector<AdamSegment> segments;
  for (std::int64_t begin = 0; begin < kElements; begin += kStride) {
    const auto index = std::ssize(segments);
    const std::int64_t end = std::min(begin + kStride - index * kLonger, kElements);
    segments.push_back({begin, end, index % 2 == 0});
  }
  return segments;
}

/// Returns the moments, and zeros where the last block of moments in int8 lacks elements.
std::vector<float> whole_blocks(std::vector<float> moments) {
  moments.resize(
      static_cast<std::size_t>(round_up(static_cast<std::int64_t>(moments.size()), kMomentBlock)));
  return moments;
}

/// Updates the same state three times on both processors; its master is split or whole.
template <typename Gradient>
void compare_adam(const std::vector<Gradient>& gradient, const std::vector<AdamSegment>& segments,
                  bool split, AdamState adam_state = AdamState::Float32) {
  std::vector<float> master = random_values(1, 0.02F);
  std::vector<float> first = random_values(2, 1e-3F);
  std::vector<float> second = random_values(3, 1e-3F);
  for (float& value : second) value *= value;
  std::vector<BFloat16Bits> parameters(kElements);
  std::vector<std::int16_t> rests(kElements);
  split_masters(master, parameters, rests, 1);
  const DeviceCopy device_master(master), device_first(first), device_second(second);
  const DeviceCopy device_parameters(parameters);
  const DeviceCopy device_rests(rests);
  const DeviceCopy device_gradient(gradient);
  std::vector<BFloat16Bits> narrow_first = rounded(first), narrow_second = rounded(second);
  const DeviceCopy device_narrow_first(narrow_first), device_narrow_second(narrow_second);
  const std::vector<float> whole_first = whole_blocks(first), whole_second = whole_blocks(second);
  std::vector<std::uint8_t> first_codes(whole_first.size()), second_codes(whole_first.size());
  std::vector<MomentScales> scales(whole_first.size() / kMomentBlock);
  encode_first_moments(whole_first, first_codes.data(), scales.data());
  encode_second_moments(whole_second, second_codes.data(), scales.data());
  const DeviceCopy device_first_codes(first_codes), device_second_codes(second_codes);
  const DeviceCopy device_scales(scales);
  AdamStateView on_host, on_device;
  if (adam_state == AdamState::Int8) {
    on_host.first_moment_int8 = first_codes.data();
    on_host.second_moment_int8 = second_codes.data();
    on_host.scales = scales.data();
    on_device.first_moment_int8 = device_first_codes.data();
    on_device.second_moment_int8 = device_second_codes.data();
    on_device.scales = device_scales.data();
  } else if (adam_state == AdamState::BFloat16) {
    on_host.first_moment_bf16 = narrow_first.data();
    on_host.second_moment_bf16 = narrow_second.data();
    on_device.first_moment_bf16 = device_narrow_first.data();
    on_device.second_moment_bf16 = device_narrow_second.data();
  } else {
    on_host.first_moment = first.data();
    on_host.second_moment = second.data();
    on_device.first_moment = device_first.data();
    on_device.second_moment = device_second.data();
  }
  if (split) {
    on_host.parameters = parameters.data();
    on_host.rests = rests.data();
    on_device.parameters = device_parameters.data();
    on_device.rests = device_rests.data();
  } else {
    on_host.master = master.data();
    on_device.master = device_master.data();
  }
  const float gradient_scale = 0.37F;
  const DeviceCopy scale(std::vector<float>{gradient_scale});
  HostDevice host;
  AdamWork work{
      .from = on_host,
      .to = on_host,
      .gradient = gradient.data(),
      .gradient_dtype = std::is_same_v<Gradient, float> ? DataType::Float32 : DataType::BFloat16,
      .segments = segments,
      .coefficients = {.learning_rate = 3e-4F, .weight_decay = 0.1F},
      .gradient_scale = &gradient_scale};
  for (work.coefficients.step = 1; work.coefficients.step <= 3; ++work.coefficients.step) {
    host.adam(Lane::Compute, work);
    cuda::launch_adam(nullptr,
                      {.state = on_device,
                       .gradient = device_gradient.data(),
                       .gradient_is_bf16 = sizeof(Gradient) == sizeof(BFloat16Bits)},
                      segments, adam_step(work.coefficients), scale.data());
    cuda::check_launch("adam");
  }
  CHECK(device_master.fetch() == master);
  CHECK(device_first.fetch() == first);
  CHECK(device_second.fetch() == second);
  CHECK(device_first_codes.fetch() == first_codes);
  CHECK(device_second_codes.fetch() == second_codes);
  CHECK(device_scales.fetch() == scales);
  CHECK(device_narrow_first.fetch() == narrow_first);
  CHECK(device_narrow_second.fetch() == narrow_second);
  CHECK(device_parameters.fetch() == parameters);
  CHECK(device_rests.fetch() == rests);
}

/// Sums, what is added to them or replaces them, and what the host makes of both.
struct Accumulation {
  explicit Accumulation(bool add) : expected(start) {
    if (!add) std::fill(expected.begin(), expected.end(), 0.0F);
    accumulate(std::span<float>(expected), std::span<const BFloat16Bits>(addend));
  }
  std::vector<float> start = random_values(5, 1.0F);
  std::vector<BFloat16Bits> addend = rounded(random_values(6, 1.0F));
  std::vector<float> expected;
};

}  // namespace

TEST_CASE("AdamW on the device gives the host's bits") {
  test::require_device();
  const std::vector<float> gradient = random_values(4, 1e-2F);
  const std::vector<AdamSegment> segments = GENERATE(std::vector<AdamSegment>{{0, kElements, true}},
                                                     std::vector<AdamSegment>{}, many_segments());
  SECTION("fp32") { compare_adam(gradient, segments, /*split=*/false); }
  SECTION("fp32 gradients") { compare_adam(gradient, segments, /*split=*/true); }
  SECTION("bf16 gradients") { compare_adam(rounded(gradient), segments, /*split=*/true); }
  SECTION("narrow moments") {
    const AdamState narrow = GENERATE(AdamState::BFloat16, AdamState::Int8);
    compare_adam(gradient, segments, /*split=*/false, narrow);
    compare_adam(gradient, segments, /*split=*/true, narrow);
    compare_adam(rounded(gradient), segments, /*split=*/true, narrow);
  }
}

TEST_CASE("accumulation on the device gives the host's bits") {
  test::require_device();
  const bool add = GENERATE(false, true);
  const Accumulation sums(add);
  const DeviceCopy addend(sums.addend);
  const DeviceCopy sum(sums.start);
  cuda::launch_accumulate(nullptr, sum.data(), cuda::MemoryLocation::Device, addend.data(), true,
                          kElements, add);
  cuda::check_launch("accumulate");
  CHECK(sum.fetch() == sums.expected);
}

TEST_CASE("accumulation into host memory gives the host's bits") {
  test::require_device();
  const bool add = GENERATE(false, true);
  const Accumulation sums(add);
  const DeviceCopy addend(sums.addend);
  const cuda::PinnedBlock block(kElements * static_cast<Bytes>(sizeof(float)));
  const std::span<float> sum(reinterpret_cast<float*>(block.data()), kElements);
  std::ranges::copy(sums.start, sum.begin());
  cuda::launch_accumulate(nullptr, sum.data(), cuda::MemoryLocation::Host, addend.data(), true,
                          kElements, add);
  cuda::check(cudaDeviceSynchronize(), "accumulate");
  CHECK(std::ranges::equal(sum, sums.expected));
}

TEST_CASE("the device splits masters as the host does") {
  test::require_device();
  std::vector<float> values = random_values(7, 1.0F);
  values[0] = std::numeric_limits<float>::quiet_NaN();
  values[1] = std::numeric_limits<float>::infinity();
  values[2] = std::bit_cast<float>(0x3F808000U);  // a tie
  std::vector<BFloat16Bits> expected(kElements);
  std::vector<std::int16_t> expected_rests(kElements);
  split_masters(values, expected, expected_rests, 1);
  const std::vector<float> zeros(kElements);
  const DeviceCopy parameters(expected);
  const DeviceCopy rests(expected_rests);
  const DeviceCopy first(zeros), second(zeros), gradient(zeros);
  const DeviceCopy scale(std::vector<float>{1.0F});
  const AdamSegment all{0, kElements, /*decays=*/false};
  // Without a learning rate and a gradient, an update only joins and splits.
  cuda::launch_adam(nullptr,
                    {.state = {.parameters = parameters.data(),
                               .rests = rests.data(),
                               .first_moment = first.data(),
                               .second_moment = second.data()},
                     .gradient = gradient.data(),
                     .gradient_is_bf16 = false},
                    {&all, 1}, adam_step({.learning_rate = 0.0F}), scale.data());
  cuda::check_launch("adam");
  CHECK(parameters.fetch() == expected);
  CHECK(rests.fetch() == expected_rests);
}

TEST_CASE("a norm on the device is the host's norm") {
  test::require_device();
  const std::vector<float> values = random_values(8, 1e-2F);
  const DeviceCopy device_values(values);
  const DeviceCopy partials{std::vector<cuda::DoubleDouble>(cuda::kSquareSumPartials)};
  const DeviceCopy sums{std::vector<cuda::DoubleDouble>(3)};
  const DeviceCopy total{std::vector<cuda::DoubleDouble>(1)};
  const DeviceCopy results{std::vector<float>(2)};
  for (int i = 0; i < 3; ++i) {
    cuda::launch_square_sum(nullptr, device_values.data(), false, kElements - i, partials.data(),
                            sums.data() + i);
  }
  cuda::launch_sum(nullptr, sums.data(), 3, total.data());
  constexpr float kLimit = 0.5F;
  constexpr float kEpsilon = 1e-6F;
  cuda::launch_norm(nullptr, total.data(), 1, kLimit, kEpsilon, results.data(), results.data() + 1);
  cuda::check_launch("norm");

  ExactSum expected;
  for (std::size_t i = 0; i < 3; ++i) {
    expected.add(square_sum(std::span(values).first(kElements - i)));
  }
  const auto norm = static_cast<float>(std::sqrt(expected.high + expected.low));
  CHECK(results.fetch() == std::vector<float>{norm, kLimit / (norm + kEpsilon)});
}

TEST_CASE("pinned memory is zero and read by the device") {
  test::require_device();
  const cuda::PinnedBlock block(3 * kMiB + 5);
  CHECK(std::all_of(block.data(), block.data() + block.size(),
                    [](std::byte byte) { return byte == std::byte{0}; }));
  auto* const floats = reinterpret_cast<float*>(block.data());
  floats[0] = 1.5F;
  const DeviceCopy sum{std::vector<float>(1)};
  cuda::launch_accumulate(nullptr, sum.data(), cuda::MemoryLocation::Device, floats, false, 1,
                          true);
  cuda::check_launch("accumulate");
  CHECK(sum.fetch() == std::vector<float>{1.5F});
}
