// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/event_meter.hpp"

#include "calibrate/bench/measure.hpp"
#include "calibrate/cuda/nvml.hpp"
#include "calibrate/cuda/stream_activity.hpp"
#include "calibrate/cuda/stream_gate.hpp"
#include "executor/cuda/graph_recorder.hpp"

#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAGuard.h>

#include <atomic>
#include <cstdint>
#include <deque>

namespace athanor {
namespace {

/// Number of phases that the host may be ahead. They keep the device busy, and they fit into a
/// stream, which holds about a thousand launches before launching waits.
constexpr std::size_t kUnderWay = 4;
/// Time in which clocks and power settle.
constexpr Seconds kWarmUp = 0.3;
/// Time in which a power limit settles. For most of a second after a pause kernels are some 2 %
/// faster than the speed at which they settle; then they swing around that by some 3 %.
constexpr Seconds kSettling = 0.7;

/// Flag that a stream waits for and the host raises.
class StreamGate {
 public:
  StreamGate()
      : flag_(at::zeros({1}, at::TensorOptions(at::kInt).pinned_memory(true))),
        value_(*static_cast<std::uint32_t*>(flag_.mutable_data_ptr())) {}

  void close(cudaStream_t stream) {
    cuda::launch_stream_gate(stream, static_cast<const std::uint32_t*>(flag_.const_data_ptr()),
                             ++next_);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }
  void open() { value_.store(next_, std::memory_order_release); }

 private:
  at::Tensor flag_;
  std::atomic_ref<std::uint32_t> value_;
  std::uint32_t next_ = 0;
};

class EventMeter final : public UnitMeter {
 public:
  explicit EventMeter(int device)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false,
                                             static_cast<c10::DeviceIndex>(device))),
        energy_(device) {}

  [[nodiscard]] torch::Device device() const override { return stream_.device(); }

  [[nodiscard]] std::unique_ptr<WorkRecorder> make_recorder() override {
    return std::make_unique<cuda::GraphRecorder>(stream_);
  }

  void run(const std::function<void()>& body) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    body();
  }

  void time(PhaseSamples& phase, const std::function<void()>& body) override {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const Bytes before = live();
    c10::cuda::CUDACachingAllocator::resetPeakStats(stream_.device_index());
    stream_gate_.close(stream_);
    Pending& pending = pending_.emplace_back(phase);
    pending.batch.begin(stream_);
    phase.issue.add(time_once(body));
    pending.batch.end(stream_);
    stream_gate_.open();
    phase.peak = allocated().peak - before;
  }

  void collect() override { collect_to(kUnderWay); }
  void finish() override {
    collect_to(0);
    stream_.synchronize();
  }

  [[nodiscard]] Bytes live() const override { return allocated().current; }
  [[nodiscard]] std::optional<double> joules() const override { return energy_.joules(); }
  [[nodiscard]] Seconds warm_up() const override { return kWarmUp; }
  [[nodiscard]] Seconds settling() const override { return kSettling; }

 private:
  struct Pending {
    explicit Pending(PhaseSamples& measured) : phase(measured) {}
    PhaseSamples& phase;
    TimedBatch batch{1};
  };

  void collect_to(std::size_t under_way) {
    while (pending_.size() > under_way) {
      pending_.front().phase.device.add(pending_.front().batch.wait());
      pending_.pop_front();
    }
  }

  /// Returns bytes of blocks with the allocator's rounding, as a memory limit counts them.
  [[nodiscard]] c10::CachingAllocator::Stat allocated() const {
    const auto stats =
        c10::cuda::CUDACachingAllocator::getDeviceStats(stream_.device_index()).allocated_bytes;
    return stats[static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE)];
  }

  c10::cuda::CUDAStream stream_;
  GpuCounters energy_;
  StreamGate stream_gate_;
  std::deque<Pending> pending_;
};

}  // namespace

std::unique_ptr<UnitMeter> make_event_meter(int device) {
  return std::make_unique<EventMeter>(device);
}

}  // namespace athanor
