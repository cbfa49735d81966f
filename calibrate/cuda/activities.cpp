// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/activities.hpp"

#include "calibrate/cuda/stream_activity.hpp"

#include <c10/cuda/CUDAStream.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace athanor {
namespace {

constexpr Bytes kBf16Bytes = 2;

at::TensorOptions on_device(int device) {
  return at::TensorOptions(at::kBFloat16).device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
}

class Matmul final : public StreamActivity {
 public:
  Matmul(int device, std::int64_t size)
      : StreamActivity(device),
        a_(at::randn({size, size}, on_device(device))),
        b_(at::randn({size, size}, on_device(device))),
        c_(at::empty({size, size}, on_device(device))) {}

 private:
  void enqueue() override { at::mm_out(c_, a_, b_); }
  at::Tensor a_, b_, c_;
};

void copy(void* to, const void* from, std::size_t bytes) {
  C10_CUDA_CHECK(
      cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, c10::cuda::getCurrentCUDAStream()));
}

class LocalCopy final : public StreamActivity {
 public:
  LocalCopy(int device, Bytes bytes)
      : StreamActivity(device), from_(random_bf16(device, bytes)), to_(at::empty_like(from_)) {}

 private:
  void enqueue() override { copy(to_.mutable_data_ptr(), from_.const_data_ptr(), from_.nbytes()); }
  at::Tensor from_, to_;
};

class HostCopy final : public StreamActivity {
 public:
  HostCopy(int device, RotatingHostBuffer host, Bytes bytes, bool to_device)
      : StreamActivity(device),
        host_(std::move(host)),
        on_gpu_(random_bf16(device, bytes)),
        to_device_(to_device) {}

 private:
  void enqueue() override {
    const std::size_t bytes = on_gpu_.nbytes();
    std::byte* const on_host = host_.next(static_cast<Bytes>(bytes));
    if (to_device_) {
      copy(on_gpu_.mutable_data_ptr(), on_host, bytes);
    } else {
      copy(on_host, on_gpu_.const_data_ptr(), bytes);
    }
  }
  RotatingHostBuffer host_;
  at::Tensor on_gpu_;
  bool to_device_;
};

}  // namespace

at::Tensor random_bf16(int device, Bytes bytes) {
  return at::randn({bytes / kBf16Bytes}, on_device(device));
}

ActivityPtr cuda_matmul(int device, std::int64_t size) {
  return std::make_unique<Matmul>(device, size);
}

ActivityPtr cuda_copy_h2d(int device, RotatingHostBuffer host, Bytes bytes) {
  return std::make_unique<HostCopy>(device, std::move(host), bytes, /*to_device=*/true);
}

ActivityPtr cuda_copy_d2h(int device, RotatingHostBuffer host, Bytes bytes) {
  return std::make_unique<HostCopy>(device, std::move(host), bytes, /*to_device=*/false);
}

ActivityPtr cuda_local_copy(int device, Bytes bytes) {
  return std::make_unique<LocalCopy>(device, bytes);
}

}  // namespace athanor
