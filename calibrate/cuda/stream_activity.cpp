// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/stream_activity.hpp"

#include <ATen/core/grad_mode.h>
#include <c10/cuda/CUDAGuard.h>

#include <algorithm>

namespace athanor {
namespace {

constexpr Seconds kShortestBatch = 400e-6;
constexpr int kLargestBatch = 64;
constexpr std::size_t kUnderWay = 3;
constexpr double kMilli = 1e-3;

}  // namespace

Seconds TimedBatch::wait() const {
  end_.synchronize();
  return kMilli * static_cast<double>(start_.elapsed_time(end_)) / repetitions_;
}

int batch_size(Seconds one) {
  constexpr Seconds kResolution = 1e-6;
  const double wanted = kShortestBatch / std::max(one, kResolution);
  return std::clamp(static_cast<int>(wanted), 1, kLargestBatch);
}

StreamActivity::StreamActivity(int device)
    : stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/false,
                                           static_cast<c10::DeviceIndex>(device))) {}

void StreamActivity::run(const SampleSink& sink) {
  const at::NoGradGuard no_grad;
  const c10::cuda::CUDAStreamGuard guard(stream_);
  c10::cuda::device_synchronize();  // buffers are filled on another stream
  launch(1);                        // loads kernels and libraries
  static_cast<void>(under_way_.back().wait());
  under_way_.clear();
  launch(1);
  const int repetitions = batch_size(under_way_.back().wait());
  under_way_.clear();
  bool go_on = true;
  while (go_on) {
    while (under_way_.size() < kUnderWay) launch(repetitions);
    go_on = sink(under_way_.front().wait());
    under_way_.pop_front();
  }
  stream_.synchronize();
  under_way_.clear();
}

void StreamActivity::launch(int repetitions) {
  TimedBatch& batch = under_way_.emplace_back(repetitions);
  batch.begin(stream_);
  for (int i = 0; i < repetitions; ++i) enqueue();
  batch.end(stream_);
}

}  // namespace athanor
