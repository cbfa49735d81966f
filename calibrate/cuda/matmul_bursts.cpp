// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/matmul_bursts.hpp"

#include "calibrate/bench/measure.hpp"
#include "calibrate/cuda/nvml.hpp"
#include "calibrate/power/energy_watch.hpp"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/cuda/Sleep.h>
#include <c10/cuda/CUDAEvent.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <deque>

namespace athanor {
namespace {

constexpr double kMilli = 1e-3;
/// Cycles of a tenth of a millisecond. After such a wait a stream waits for no launch of the burst.
constexpr std::int64_t kLaunchCycles = 200'000;
/// Number of products that the host may be ahead; much fewer than a stream holds.
constexpr std::size_t kAhead = 64;

class Bursts {
 public:
  Bursts(int device, std::int64_t size)
      : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false,
                                             static_cast<c10::DeviceIndex>(device))) {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const auto options = at::TensorOptions(at::kBFloat16).device(stream_.device());
    a_ = at::randn({size, size}, options);
    b_ = at::randn({size, size}, options);
    c_ = at::empty({size, size}, options);
    at::mm_out(c_, a_, b_);
    stream_.synchronize();
    origin_.record(stream_);
  }

  /// Launches products for `seconds` and waits for them. Returns the kernels' time.
  Seconds run(Seconds seconds, KernelBursts& bursts) {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const std::size_t before = bursts.kernels.size();
    Seconds launched = 0;
    at::cuda::sleep(kLaunchCycles);
    events_.emplace_back(kTimed).record(stream_);
    while (launched < seconds) {
      at::mm_out(c_, a_, b_);
      events_.emplace_back(kTimed).record(stream_);
      launched += estimate_;
      while (events_.size() > kAhead) take(bursts);
    }
    while (events_.size() > 1) take(bursts);
    events_.clear();
    Seconds sum = 0;
    for (std::size_t i = before; i < bursts.kernels.size(); ++i) sum += bursts.kernels[i].seconds;
    return sum;
  }

 private:
  static constexpr unsigned kTimed = cudaEventBlockingSync;

  void take(KernelBursts& bursts) {
    events_[1].synchronize();
    const auto seconds = kMilli * static_cast<double>(events_[0].elapsed_time(events_[1]));
    const auto start = kMilli * static_cast<double>(origin_.elapsed_time(events_[0]));
    if (bursts.kernels.empty()) first_ = start;
    bursts.kernels.push_back({start - first_, seconds});
    estimate_ = seconds;
    events_.pop_front();
  }

  c10::cuda::CUDAStream stream_;
  at::Tensor a_, b_, c_;
  c10::cuda::CUDAEvent origin_{kTimed};
  std::deque<c10::cuda::CUDAEvent> events_;
  Seconds first_ = 0, estimate_ = kMilli;
};

}  // namespace

KernelBursts matmul_bursts(int device, std::int64_t size, Seconds on, Seconds off, Seconds seconds,
                           const GpuCounters& energy) {
  constexpr Seconds kSettling = 0.6;  // the power limits' means settle, too
  constexpr Seconds kShort = 0.02;
  const at::NoGradGuard no_grad;
  Bursts bench(device, size);
  KernelBursts bursts, ignored;
  Seconds running = 0;
  const auto repeat = [&](Seconds at_least, KernelBursts& into) {
    running = 0;
    for (Seconds elapsed = 0; elapsed < at_least;) {
      elapsed += time_once([&] {
        running += bench.run(off > 0 ? on : at_least, into);
        if (off > 0) sleep_for(off);
      });
    }
  };
  const EnergyWatch watch([&energy] { return energy.joules(); });
  if (off > 0) repeat(kSettling, ignored);
  const Moment start = Moment::clock::now();
  repeat(seconds, bursts);
  const Moment end = Moment::clock::now();
  bursts.running_share = running / seconds_between(start, end);
  watch.until_change([&] { repeat(kShort, ignored); });
  if (energy.joules()) bursts.watts = watch.watts(off > 0 ? start : start + (end - start) / 2, end);
  return bursts;
}

}  // namespace athanor
