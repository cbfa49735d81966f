// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/collective_activity.hpp"

#include "calibrate/bench/measure.hpp"
#include "calibrate/cuda/activities.hpp"
#include "calibrate/cuda/stream_activity.hpp"

#include <ATen/ATen.h>
#include <c10/cuda/CUDAGuard.h>

#include <barrier>
#include <exception>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace athanor {
namespace {

constexpr Bytes kBf16Bytes = 2;
/// Length of a batch in those of stream activities. The host waits between two batches, so a batch
/// has to be much longer than a wake-up.
constexpr int kBatchFactor = 8;

/// Buffers and stream of one rank.
class Rank {
 public:
  Rank(const NcclRing& ring, int device, CollectiveKind kind, Bytes bytes)
      : kind_(kind),
        communicator_(ring.rank(device)),
        ranks_(ring.size()),
        part_bytes_(bytes / ring.size()),
        // High priority, as in the executor: kernels that fill the device would keep it out.
        stream_(c10::cuda::getStreamFromPool(/*isHighPriority=*/true,
                                             static_cast<c10::DeviceIndex>(device))),
        buffer_(random_bf16(device, bytes)),
        home_(random_bf16(device, bytes)) {
    if (kind == CollectiveKind::AllReduce) sum_ = at::empty_like(buffer_);
    own_part_ = static_cast<std::byte*>(buffer_.mutable_data_ptr()) + device * part_bytes_;
    const c10::cuda::CUDAGuard guard(stream_.device_index());
    c10::cuda::device_synchronize();  // the buffers are filled on another stream
  }

  /// Launches `repetitions` and waits. Returns the host's time to launch one.
  [[nodiscard]] Seconds issue_batch(int repetitions) {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    const Seconds seconds = time_once([&] {
      for (int i = 0; i < repetitions; ++i) enqueue();
    });
    stream_.synchronize();
    return seconds / repetitions;
  }

  /// Launches `repetitions` and waits. Returns the seconds of one.
  [[nodiscard]] Seconds run_batch(int repetitions) {
    const c10::cuda::CUDAStreamGuard guard(stream_);
    TimedBatch batch(repetitions);
    batch.begin(stream_);
    for (int i = 0; i < repetitions; ++i) enqueue();
    batch.end(stream_);
    return batch.wait();
  }

 private:
  void enqueue() {
    const auto part = static_cast<std::size_t>(part_bytes_ / kBf16Bytes);
    switch (kind_) {
      case CollectiveKind::AllGather:
        copy(own_part_, home_.const_data_ptr(), part_bytes_);
        check_nccl(ncclAllGather(own_part_, buffer_.mutable_data_ptr(), part, ncclBfloat16,
                                 communicator_, stream_),
                   "ncclAllGather");
        return;
      case CollectiveKind::ReduceScatter:
        check_nccl(ncclReduceScatter(buffer_.const_data_ptr(), own_part_, part, ncclBfloat16,
                                     ncclSum, communicator_, stream_),
                   "ncclReduceScatter");
        copy(home_.mutable_data_ptr(), own_part_, part_bytes_);
        return;
      case CollectiveKind::AllReduce:
        // Out of place: repeated in place, the sums would overflow.
        check_nccl(ncclAllReduce(buffer_.const_data_ptr(), sum_.mutable_data_ptr(),
                                 static_cast<std::size_t>(buffer_.numel()), ncclBfloat16, ncclSum,
                                 communicator_, stream_),
                   "ncclAllReduce");
        copy(home_.mutable_data_ptr(), sum_.const_data_ptr(), static_cast<Bytes>(sum_.nbytes()));
        return;
      case CollectiveKind::AllToAll:
        return exchange(part);
    }
  }

  /// A send and a receive for every rank in one group, as the executor has them.
  void exchange(std::size_t part) {
    check_nccl(ncclGroupStart(), "ncclGroupStart");
    const auto* const from = static_cast<const std::byte*>(buffer_.const_data_ptr());
    auto* const to = static_cast<std::byte*>(home_.mutable_data_ptr());
    for (int other = 0; other < ranks_; ++other) {
      check_nccl(
          ncclSend(from + other * part_bytes_, part, ncclBfloat16, other, communicator_, stream_),
          "ncclSend");
      check_nccl(
          ncclRecv(to + other * part_bytes_, part, ncclBfloat16, other, communicator_, stream_),
          "ncclRecv");
    }
    check_nccl(ncclGroupEnd(), "ncclGroupEnd");
  }

  void copy(void* to, const void* from, Bytes bytes) const {
    C10_CUDA_CHECK(cudaMemcpyAsync(to, from, static_cast<std::size_t>(bytes),
                                   cudaMemcpyDeviceToDevice, stream_));
  }

  CollectiveKind kind_;
  ncclComm_t communicator_;
  int ranks_;
  Bytes part_bytes_;
  c10::cuda::CUDAStream stream_;
  at::Tensor buffer_, home_, sum_;
  std::byte* own_part_ = nullptr;
};

class Collective final : public DeviceActivity {
 public:
  Collective(std::shared_ptr<NcclRing> ring, CollectiveKind kind, Bytes bytes)
      : ring_(std::move(ring)) {
    for (int device = 0; device < ring_->size(); ++device) {
      ranks_.emplace_back(*ring_, device, kind, bytes);
    }
  }

  void run(const SampleSink& sink) override {
    repetitions_ = 1;
    stop_ = false;
    failure_ = nullptr;
    std::barrier<> step(ring_->size());
    std::vector<std::jthread> others;
    for (std::size_t rank = 1; rank < ranks_.size(); ++rank) {
      others.emplace_back([this, &step, rank] { follow(step, ranks_[rank]); });
    }
    lead(step, sink);
    others.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  /// Runs rank 0. Its time stands for all, since no rank is done before every rank has taken part.
  void lead(std::barrier<>& step, const SampleSink& sink) {
    int warm = 0;
    while (!stop_) {
      step.arrive_and_wait();
      const Seconds seconds = attempt(ranks_.front());
      step.arrive_and_wait();
      if (failure_) {
        stop_ = true;
      } else if (warm < 2) {
        repetitions_ = warm++ == 0 ? 1 : kBatchFactor * batch_size(seconds);
      } else {
        stop_ = !sink(seconds);
      }
    }
    step.arrive_and_wait();
  }

  void follow(std::barrier<>& step, Rank& rank) {
    for (step.arrive_and_wait(); !stop_; step.arrive_and_wait()) {
      static_cast<void>(attempt(rank));
      step.arrive_and_wait();
    }
  }

  /// Runs a batch. Keeps a failure until every rank has come to the barrier.
  [[nodiscard]] Seconds attempt(Rank& rank) {
    try {
      return rank.run_batch(repetitions_);
    } catch (...) {
      const std::lock_guard lock(mutex_);
      failure_ = std::current_exception();
      return 0;
    }
  }

  std::shared_ptr<NcclRing> ring_;
  std::vector<Rank> ranks_;
  // Written by rank 0 only, between barriers, except for a failure.
  int repetitions_ = 1;
  bool stop_ = false;
  std::mutex mutex_;
  std::exception_ptr failure_;
};

}  // namespace

Seconds collective_issue(const NcclRing& ring) {
  constexpr Bytes kPart = 256;
  constexpr int kRounds = 9, kCalls = 64;
  std::vector<Rank> ranks;
  for (int device = 0; device < ring.size(); ++device) {
    ranks.emplace_back(ring, device, CollectiveKind::AllGather, kPart * ring.size());
  }
  Samples samples;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<std::future<Seconds>> others;
    for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
      others.push_back(std::async(std::launch::async,
                                  [&ranks, rank] { return ranks[rank].issue_batch(kCalls); }));
    }
    samples.add(ranks.front().issue_batch(kCalls));
    for (std::future<Seconds>& other : others) static_cast<void>(other.get());
  }
  return samples.median();
}

ActivityPtr cuda_collective(std::shared_ptr<NcclRing> ring, CollectiveKind kind, Bytes bytes) {
  return std::make_unique<Collective>(std::move(ring), kind, bytes);
}

}  // namespace athanor
