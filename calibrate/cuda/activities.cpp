// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/activities.hpp"

#include "calibrate/cuda/stream_activity.hpp"
#include "executor/cuda/handles.hpp"

#include <c10/cuda/CUDAStream.h>

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

/// Any copy between two tensors; asynchronous where the host's is page-locked.
class Copy final : public StreamActivity {
 public:
  Copy(int device, at::Tensor to, at::Tensor from)
      : StreamActivity(device), to_(std::move(to)), from_(std::move(from)) {}

 private:
  void enqueue() override {
    C10_CUDA_CHECK(cudaMemcpyAsync(to_.mutable_data_ptr(), from_.const_data_ptr(), from_.nbytes(),
                                   cudaMemcpyDefault, c10::cuda::getCurrentCUDAStream()));
  }
  at::Tensor to_, from_;
};

/// In memory as training takes it.
at::Tensor pinned_copy(const at::Tensor& on_gpu) {
  auto block = std::make_shared<cuda::PinnedBlock>(static_cast<Bytes>(on_gpu.nbytes()));
  at::Tensor on_host = at::from_blob(
      block->data(), on_gpu.sizes(), [block](void*) {}, on_gpu.options().device(at::kCPU));
  return on_host.copy_(on_gpu);
}

}  // namespace

at::Tensor random_bf16(int device, Bytes bytes) {
  return at::randn({bytes / kBf16Bytes}, on_device(device));
}

ActivityPtr cuda_matmul(int device, std::int64_t size) {
  return std::make_unique<Matmul>(device, size);
}

ActivityPtr cuda_copy(int device, Bytes bytes, bool to_device) {
  at::Tensor on_gpu = random_bf16(device, bytes);
  at::Tensor on_host = pinned_copy(on_gpu);
  return to_device ? std::make_unique<Copy>(device, on_gpu, on_host)
                   : std::make_unique<Copy>(device, on_host, on_gpu);
}

ActivityPtr cuda_local_copy(int device, Bytes bytes) {
  const at::Tensor from = random_bf16(device, bytes);
  return std::make_unique<Copy>(device, at::empty_like(from), from);
}

}  // namespace athanor
