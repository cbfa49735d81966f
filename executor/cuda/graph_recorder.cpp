// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/graph_recorder.hpp"

#include "executor/cuda/handles.hpp"

#include <ATen/cuda/CUDAGraph.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace athanor::cuda {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

/// While it is alive, what is allocated on `stream` comes from `pool`.
class PoolScope {
 public:
  PoolScope(c10::cuda::CUDAStream stream, c10::MempoolId_t pool)
      : device_(stream.device_index()), pool_(std::move(pool)) {
    allocator::beginAllocateToPool(
        device_, pool_, [raw = stream.stream()](cudaStream_t other) { return other == raw; });
  }
  ~PoolScope() {
    allocator::endAllocateToPool(device_, pool_);
    allocator::releasePool(device_, pool_);  // the beginning counted as a use
  }
  PoolScope(const PoolScope&) = delete;
  PoolScope& operator=(const PoolScope&) = delete;

 private:
  c10::DeviceIndex device_;
  c10::MempoolId_t pool_;
};

struct GraphDeleter {
  using pointer = cudaGraph_t;
  void operator()(cudaGraph_t graph) const noexcept { static_cast<void>(cudaGraphDestroy(graph)); }
};
struct ExecutableDeleter {
  using pointer = cudaGraphExec_t;
  void operator()(cudaGraphExec_t graph) const noexcept {
    static_cast<void>(cudaGraphExecDestroy(graph));
  }
};
using Graph = std::unique_ptr<cudaGraph_t, GraphDeleter>;
using Executable = std::unique_ptr<cudaGraphExec_t, ExecutableDeleter>;

/// Captures what is put on a stream while it is alive. Only the calling thread is kept from acts
/// that a capture cannot hold: others wait for events and pin memory meanwhile.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "record a graph");
  }
  ~Capture() {
    if (stream_ == nullptr) return;
    // The failure that ended the work is on its way already.
    cudaGraph_t graph = nullptr;
    static_cast<void>(cudaStreamEndCapture(stream_, &graph));
    static_cast<void>(cudaGetLastError());
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  [[nodiscard]] Graph take() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamEndCapture(std::exchange(stream_, nullptr), &graph), "record a graph");
    return Graph(graph);
  }

 private:
  cudaStream_t stream_;
};

Bytes free_memory() {
  std::size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "ask for free memory");
  return static_cast<Bytes>(free);
}

class RecordedGraph final : public RecordedWork {
 public:
  RecordedGraph(const Graph& graph, cudaStream_t stream) : stream_(stream) {
    const Bytes before = free_memory();
    cudaGraphExec_t executable = nullptr;
    check(cudaGraphInstantiate(&executable, graph.get(), 0), "make a graph");
    executable_.reset(executable);
    // Takes its memory now, and not when it is issued first.
    check(cudaGraphUpload(executable_.get(), stream_), "make a graph");
    bytes_ = std::max(Bytes{0}, before - free_memory());
  }
  void issue() override { check(cudaGraphLaunch(executable_.get(), stream_), "issue a graph"); }
  [[nodiscard]] Bytes bytes() const override { return bytes_; }

 private:
  cudaStream_t stream_;
  Executable executable_;
  Bytes bytes_ = 0;
};

}  // namespace

GraphRecorder::GraphRecorder(c10::cuda::CUDAStream stream)
    : stream_(stream), pool_(at::cuda::graph_pool_handle()) {
  // The pool cannot take what the allocator keeps for others, former recorders among them.
  allocator::emptyCache();
  allocator::createOrIncrefPool(stream_.device_index(), pool_);
}

GraphRecorder::~GraphRecorder() { allocator::releasePool(stream_.device_index(), pool_); }

void GraphRecorder::run(const std::function<void()>& work) {
  const PoolScope pool(stream_, pool_);
  work();
}

std::unique_ptr<RecordedWork> GraphRecorder::record(const std::function<void()>& work) {
  const PoolScope pool(stream_, pool_);
  Capture capture(stream_.stream());
  work();
  return std::make_unique<RecordedGraph>(capture.take(), stream_.stream());
}

}  // namespace athanor::cuda
