// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/update_activities.hpp"

#include "calibrate/bench/rotating_buffer.hpp"
#include "calibrate/cuda/activities.hpp"
#include "calibrate/cuda/stream_activity.hpp"
#include "executor/cuda/kernels/kernels.hpp"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <cstddef>
#include <utility>

namespace athanor {
namespace {

constexpr std::int64_t kBufferElements = std::int64_t{1} << 25;  // 64 MiB in bf16
constexpr std::int64_t kAlignment = 32;

RotatingBuffer rotating_buffer_for(std::int64_t elements) {
  return {std::max(elements, kBufferElements), kAlignment};
}

at::TensorOptions fp32_on(int device) {
  return at::TensorOptions(at::kFloat).device(at::kCUDA, static_cast<c10::DeviceIndex>(device));
}

at::Tensor gradient_on(int device, std::int64_t elements) {
  return random_bf16(device, 2 * elements);
}

class Adam final : public StreamActivity {
 public:
  Adam(int device, std::int64_t elements)
      : StreamActivity(device),
        elements_(elements),
        offsets_(rotating_buffer_for(elements)),
        parameters_(random_bf16(device, 2 * offsets_.length())),
        rests_(at::zeros({offsets_.length()}, fp32_on(device).dtype(at::kShort))),
        first_(at::zeros({offsets_.length()}, fp32_on(device))),
        second_(at::zeros({offsets_.length()}, fp32_on(device))),
        gradient_(gradient_on(device, offsets_.length())),
        scale_(at::ones({1}, fp32_on(device))) {}

 private:
  void enqueue() override {
    constexpr AdamStep kStep{.decay = 0.9999F,
                             .beta1 = 0.9F,
                             .one_minus_beta1 = 0.1F,
                             .beta2 = 0.95F,
                             .one_minus_beta2 = 0.05F,
                             .step_size = 1e-3F,
                             .root_bias_correction2 = 1.0F,
                             .epsilon = 1e-8F};
    const std::int64_t offset = offsets_.next(elements_);
    const cuda::AdamShard shard{
        .state = {.parameters = static_cast<BFloat16Bits*>(parameters_.mutable_data_ptr()) + offset,
                  .rests = rests_.mutable_data_ptr<std::int16_t>() + offset,
                  .first_moment = first_.mutable_data_ptr<float>() + offset,
                  .second_moment = second_.mutable_data_ptr<float>() + offset},
        .gradient = gradient_.const_data_ptr<at::BFloat16>() + offset,
        .gradient_is_bf16 = true};
    const AdamSegment all{0, elements_, /*decays=*/true};
    cuda::launch_adam(c10::cuda::getCurrentCUDAStream(), shard, {&all, 1}, kStep,
                      scale_.const_data_ptr<float>());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  std::int64_t elements_;
  RotatingBuffer offsets_;
  at::Tensor parameters_, rests_, first_, second_, gradient_, scale_;
};

class SquareSum final : public StreamActivity {
 public:
  SquareSum(int device, std::int64_t elements)
      : StreamActivity(device),
        elements_(elements),
        offsets_(rotating_buffer_for(elements)),
        gradient_(gradient_on(device, offsets_.length())),
        partials_(at::zeros({2 * cuda::kSquareSumPartials}, fp32_on(device).dtype(at::kDouble))),
        result_(at::zeros({2}, fp32_on(device).dtype(at::kDouble))) {}

 private:
  void enqueue() override {
    cuda::launch_square_sum(c10::cuda::getCurrentCUDAStream(),
                            gradient_.const_data_ptr<at::BFloat16>() + offsets_.next(elements_),
                            /*values_are_bf16=*/true, elements_,
                            static_cast<cuda::DoubleDouble*>(partials_.mutable_data_ptr()),
                            static_cast<cuda::DoubleDouble*>(result_.mutable_data_ptr()));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  std::int64_t elements_;
  RotatingBuffer offsets_;
  at::Tensor gradient_, partials_, result_;
};

class AddToHost final : public StreamActivity {
 public:
  AddToHost(int device, RotatingHostBuffer sums, std::int64_t elements)
      : StreamActivity(device),
        sums_(std::move(sums)),
        elements_(elements),
        gradient_(gradient_on(device, elements)) {}

 private:
  void enqueue() override {
    std::byte* const sums = sums_.next(elements_ * static_cast<Bytes>(sizeof(float)));
    cuda::launch_accumulate(c10::cuda::getCurrentCUDAStream(), reinterpret_cast<float*>(sums),
                            cuda::MemoryLocation::Host, gradient_.const_data_ptr(),
                            /*addend_is_bf16=*/true, elements_, /*add=*/true);
    C10_CUDA_KERNEL_LAUNCH_CHECK();
  }

  RotatingHostBuffer sums_;
  std::int64_t elements_;
  at::Tensor gradient_;
};

}  // namespace

ActivityPtr cuda_add_to_host(int device, RotatingHostBuffer host, Bytes bytes) {
  return std::make_unique<AddToHost>(device, std::move(host),
                                     bytes / static_cast<Bytes>(sizeof(float)));
}

ActivityPtr cuda_adam(int device, std::int64_t elements) {
  return std::make_unique<Adam>(device, elements);
}

ActivityPtr cuda_square_sum(int device, std::int64_t elements) {
  return std::make_unique<SquareSum>(device, elements);
}

}  // namespace athanor
