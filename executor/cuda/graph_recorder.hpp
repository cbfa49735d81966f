// SPDX-License-Identifier: Apache-2.0
// CUDA graphs of what LibTorch's operators put on one stream.
#pragma once

#include "executor/recording/work_recorder.hpp"

#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>

#include <functional>
#include <memory>

namespace athanor::cuda {

/// Records the work of one stream as CUDA graphs. The pool of their tensors is a private pool of
/// LibTorch's caching allocator, and counts in its statistics.
class GraphRecorder final : public WorkRecorder {
 public:
  explicit GraphRecorder(c10::cuda::CUDAStream stream);
  ~GraphRecorder() override;
  GraphRecorder(const GraphRecorder&) = delete;
  GraphRecorder& operator=(const GraphRecorder&) = delete;

  void run(const std::function<void()>& work) override;
  [[nodiscard]] std::unique_ptr<RecordedWork> record(const std::function<void()>& work) override;

 private:
  c10::cuda::CUDAStream stream_;
  c10::MempoolId_t pool_;  ///< in LibTorch's allocator
};

}  // namespace athanor::cuda
