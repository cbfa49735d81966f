// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/issue_times.hpp"

#include "calibrate/bench/cores.hpp"
#include "calibrate/bench/samples.hpp"
#include "executor/cuda/cuda_device.hpp"
#include "executor/cuda/stream_lanes.hpp"

#include <array>
#include <atomic>
#include <cstdint>
#include <optional>

namespace athanor {
namespace {

constexpr std::array kGpuLanes{Lane::H2D, Lane::Collective, Lane::Compute, Lane::D2H};
/// Elements of an operation, few enough that the host never waits for the device.
constexpr std::int64_t kElements = 1024;
constexpr int kRounds = 64;
constexpr std::int64_t kWarmUpSteps = 2;
constexpr std::int64_t kSteps = 8;
/// Number of cores; odd, so that the median is the time of one of them.
constexpr int kCores = 15;

/// Makes rounds over the lanes in which each operation waits for the one before. As in a training
/// step, most operations wait for another lane.
Program make_rounds() {
  Program program;
  for (int i = 0; i < kRounds; ++i) {
    for (const Lane lane : kGpuLanes) {
      Operation op;
      op.kind = lane == Lane::Compute ? OpKind::Adam : OpKind::Fetch;
      op.lane = lane;
      if (!program.operations.empty()) {
        op.waits.push_back(static_cast<std::int32_t>(program.operations.size()) - 1);
      }
      program.operations.push_back(std::move(op));
    }
  }
  return program;
}

/// Operations of the four lanes on a little memory.
class SmallOperations {
 public:
  explicit SmallOperations(cuda::CudaDevice& device)
      : device_(device),
        here_(device.allocate_uncounted(kBytes)),
        there_(device.allocate_uncounted(kBytes)),
        host_(device.allocate_pinned(kBytes)),
        state_(device.allocate_uncounted(3 * kBytes)),
        scale_(device.allocate_uncounted(sizeof(float))) {}

  void run(Lane lane) {
    switch (lane) {
      case Lane::Compute:
        return device_.adam(lane, work());
      case Lane::Collective:
        return device_.copy(lane, there_.get(), here_.get(), kBytes);
      case Lane::H2D:
        return device_.copy(lane, here_.get(), host_.get(), kBytes);
      case Lane::D2H:
        return device_.copy(lane, host_.get(), there_.get(), kBytes);
      case Lane::CpuAdam:
      case Lane::NvmeRead:
      case Lane::NvmeWrite:
        return;
    }
  }

 private:
  static constexpr Bytes kBytes = kElements * Bytes{sizeof(float)};
  static constexpr AdamSegment kAll{0, kElements, /*decays=*/true};

  [[nodiscard]] AdamWork work() const {
    auto* const state = reinterpret_cast<float*>(state_.get());
    AdamWork work;
    work.from = work.to = {
        .master = state, .first_moment = state + kElements, .second_moment = state + 2 * kElements};
    work.gradient = here_.get();
    work.segments = {&kAll, 1};
    work.gradient_scale = reinterpret_cast<const float*>(scale_.get());
    return work;
  }

  cuda::CudaDevice& device_;
  MemoryBlock here_, there_, host_, state_, scale_;
};

using LaneSamples = std::array<Samples, kNumLanes>;

/// Measures the issue times of a thread on `core`, by lane.
LaneSamples measure_on(int core, cuda::CudaDevice& device, SmallOperations& operations,
                       const Program& program) {
  LaneSamples samples;
  const auto lane_of = [&](std::int32_t operation) {
    return program.operations[static_cast<std::size_t>(operation)].lane;
  };
  std::atomic<bool> cancelled = false;
  const LaneCallbacks callbacks{
      .entered = {},
      .run = [&](std::int32_t operation, std::int64_t) { operations.run(lane_of(operation)); },
      .started = [](std::int32_t, std::int64_t) {},
      .issued =
          [&](std::int32_t operation, std::int64_t step, Seconds start, Seconds end) {
            const auto lane = static_cast<std::size_t>(lane_of(operation));
            if (step >= kWarmUpSteps) samples[lane].add(end - start);
          },
      .done = [](std::int32_t, std::int64_t, Seconds, Seconds) {}};
  std::optional<CoreBinding> binding(core);
  cuda::StreamLanes lanes(device, program, 0, callbacks, cancelled, [] {});
  binding.reset();  // the waiting thread must not delay the issuing one
  for (std::int64_t step = 0; step < kSteps; ++step) {
    lanes.release_until(step + 1);
    lanes.wait_for_step(step);
  }
  return samples;
}

}  // namespace

std::map<Lane, Seconds> measure_issue(int device_index) {
  cuda::CudaDevice device(device_index, 0);
  SmallOperations operations(device);
  const Program program = make_rounds();
  LaneSamples by_core;
  for (const int core : some_cores(kCores)) {
    const LaneSamples samples = measure_on(core, device, operations, program);
    for (const Lane lane : kGpuLanes) {
      by_core[static_cast<std::size_t>(lane)].add(samples[static_cast<std::size_t>(lane)].median());
    }
  }
  std::map<Lane, Seconds> issue;
  for (const Lane lane : kGpuLanes) issue[lane] = by_core[static_cast<std::size_t>(lane)].median();
  return issue;
}

}  // namespace athanor
