// SPDX-License-Identifier: Apache-2.0
// Vectors in device memory, for tests.
#pragma once

#include "executor/cuda/handles.hpp"

#include <catch2/catch_test_macros.hpp>

#include <vector>

namespace athanor::test {

/// Skips the test where there is no GPU.
inline void require_device() {
  if (cuda::device_count() == 0) SKIP("no CUDA device");
}

template <typename Value>
class DeviceCopy {
 public:
  explicit DeviceCopy(const std::vector<Value>& values)
      : count_(values.size()), memory_(static_cast<Bytes>(values.size() * sizeof(Value))) {
    cuda::check(cudaMemcpy(data(), values.data(), count_ * sizeof(Value), cudaMemcpyHostToDevice),
                "copy to the device");
  }
  [[nodiscard]] Value* data() const { return reinterpret_cast<Value*>(memory_.data()); }
  [[nodiscard]] std::vector<Value> fetch() const {
    std::vector<Value> values(count_);
    cuda::check(cudaMemcpy(values.data(), data(), count_ * sizeof(Value), cudaMemcpyDeviceToHost),
                "copy from the device");
    return values;
  }

 private:
  std::size_t count_;
  cuda::DeviceBuffer memory_;
};

}  // namespace athanor::test
