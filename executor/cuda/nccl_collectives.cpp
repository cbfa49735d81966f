// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/nccl_collectives.hpp"

#include "executor/rendezvous/rank_from_environment.hpp"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>

namespace athanor::cuda {
namespace {

/// Bytes of all ranks together per exchange of host memory.
constexpr Bytes kStagingBytes = 32 * kMiB;

ncclDataType_t nccl_type(DataType dtype) {
  return dtype == DataType::Float32 ? ncclFloat32 : ncclBfloat16;
}

std::size_t unsigned_size(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace

NcclCommunicator::NcclCommunicator(const RankInfo& rank, const ncclUniqueId& id) : rank_(rank) {
  check(ncclCommInitRank(&comm_, rank.world_size, id, rank.rank), "connect the ranks");
}

NcclCommunicator::~NcclCommunicator() {
  if (!aborted_) ncclCommDestroy(comm_);
}

void NcclCommunicator::check(ncclResult_t status, const char* what) const {
  if (status == ncclSuccess) return;
  const char* const detail = ncclGetLastError(comm_);
  throw Error(std::string("NCCL: ") + what + ": " + ncclGetErrorString(status) +
              (detail == nullptr || *detail == '\0' ? "" : std::string(" (") + detail + ")") +
              ". NCCL_DEBUG=WARN says more.");
}

void NcclCommunicator::check_health() const {
  ncclResult_t state = ncclSuccess;
  check(ncclCommGetAsyncError(comm_, &state), "ask for failures");
  check(state, "a collective");
}

void NcclCommunicator::abort() noexcept {
  if (!aborted_.exchange(true)) ncclCommAbort(comm_);
}

void StreamCollectives::all_gather(void* buffer, Bytes part_bytes) {
  auto* const own = static_cast<std::byte*>(buffer) + rank() * part_bytes;
  communicator_.check(
      ncclAllGather(own, buffer, unsigned_size(part_bytes), ncclInt8, communicator_.get(), stream_),
      "all-gather");
}

void StreamCollectives::reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) {
  const std::int64_t part = elements / world_size();
  auto* const own = static_cast<std::byte*>(buffer) + rank() * part * size_of(dtype);
  communicator_.check(ncclReduceScatter(buffer, own, unsigned_size(part), nccl_type(dtype), ncclSum,
                                        communicator_.get(), stream_),
                      "reduce-scatter");
}

void StreamCollectives::all_reduce(void* buffer, std::int64_t elements, DataType dtype) {
  communicator_.check(ncclAllReduce(buffer, buffer, unsigned_size(elements), nccl_type(dtype),
                                    ncclSum, communicator_.get(), stream_),
                      "all-reduce");
}

/// A send and a receive for every rank, itself included, in one group: NCCL runs them at once.
void StreamCollectives::all_to_all(const void* from, void* to, Bytes part_bytes) {
  const auto* const sent = static_cast<const std::byte*>(from);
  auto* const received = static_cast<std::byte*>(to);
  const std::size_t bytes = unsigned_size(part_bytes);
  communicator_.check(ncclGroupStart(), "start an all-to-all");
  for (int other = 0; other < world_size(); ++other) {
    communicator_.check(
        ncclSend(sent + other * part_bytes, bytes, ncclInt8, other, communicator_.get(), stream_),
        "send to another rank");
    communicator_.check(ncclRecv(received + other * part_bytes, bytes, ncclInt8, other,
                                 communicator_.get(), stream_),
                        "receive from another rank");
  }
  communicator_.check(ncclGroupEnd(), "all-to-all");
}

void StreamCollectives::barrier() { throw Error("a stream has no barrier"); }

HostCollectives::HostCollectives(NcclCommunicator& communicator, cudaStream_t stream)
    : communicator_(communicator),
      stream_(stream),
      on_device_(communicator, stream),
      staging_(kStagingBytes) {}

void HostCollectives::all_gather(void* buffer, Bytes part_bytes) {
  const Bytes piece = kStagingBytes / world_size();
  for (Bytes offset = 0; offset < part_bytes; offset += piece) {
    gather_piece(static_cast<std::byte*>(buffer), part_bytes, offset,
                 std::min(piece, part_bytes - offset));
  }
}

void HostCollectives::gather_piece(std::byte* buffer, Bytes part_bytes, Bytes offset, Bytes bytes) {
  const auto at = [&](int of_rank) { return buffer + of_rank * part_bytes + offset; };
  std::byte* const staging = staging_.data();
  cuda::check(cudaMemcpyAsync(staging + rank() * bytes, at(rank()), unsigned_size(bytes),
                              cudaMemcpyDefault, stream_),
              "send to other ranks");
  on_device_.all_gather(staging, bytes);
  wait();
  for (int other = 0; other < world_size(); ++other) {
    if (other == rank()) continue;
    cuda::check(cudaMemcpyAsync(at(other), staging + other * bytes, unsigned_size(bytes),
                                cudaMemcpyDefault, stream_),
                "receive from other ranks");
  }
  wait();
}

void HostCollectives::reduce_scatter(void* buffer, std::int64_t elements, DataType dtype) {
  all_reduce(buffer, elements, dtype);
}

void HostCollectives::all_reduce(void* buffer, std::int64_t elements, DataType dtype) {
  const std::int64_t piece = kStagingBytes / size_of(dtype);
  auto* const bytes = static_cast<std::byte*>(buffer);
  for (std::int64_t first = 0; first < elements; first += piece) {
    const std::int64_t count = std::min(piece, elements - first);
    std::byte* const at = bytes + first * size_of(dtype);
    const std::size_t size_here = unsigned_size(count * size_of(dtype));
    cuda::check(cudaMemcpyAsync(staging_.data(), at, size_here, cudaMemcpyDefault, stream_),
                "send to other ranks");
    on_device_.all_reduce(staging_.data(), count, dtype);
    wait();
    cuda::check(cudaMemcpyAsync(at, staging_.data(), size_here, cudaMemcpyDefault, stream_),
                "receive from other ranks");
    wait();
  }
}

void HostCollectives::all_to_all(const void* from, void* to, Bytes part_bytes) {
  const auto* const sent = static_cast<const std::byte*>(from);
  auto* const received = static_cast<std::byte*>(to);
  const Bytes piece = kStagingBytes / 2 / world_size();
  std::byte* const out = staging_.data();
  std::byte* const in = out + kStagingBytes / 2;
  for (Bytes offset = 0; offset < part_bytes; offset += piece) {
    const Bytes bytes = std::min(piece, part_bytes - offset);
    const auto copy = [&](std::byte* target, const std::byte* source) {
      cuda::check(cudaMemcpyAsync(target, source, unsigned_size(bytes), cudaMemcpyDefault, stream_),
                  "exchange with other ranks");
    };
    for (int other = 0; other < world_size(); ++other) {
      copy(out + other * bytes, sent + other * part_bytes + offset);
    }
    on_device_.all_to_all(out, in, bytes);
    for (int other = 0; other < world_size(); ++other) {
      copy(received + other * part_bytes + offset, in + other * bytes);
    }
    wait();
  }
}

void HostCollectives::barrier() {
  float token = 0;
  all_reduce(&token, 1, DataType::Float32);
}

void HostCollectives::wait() const {
  constexpr std::chrono::microseconds kSleep{50};
  done_.record(stream_);
  while (true) {
    const cudaError_t state = cudaEventQuery(done_.get());
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) cuda::check(state, "exchange with other ranks");
    communicator_.check_health();
    if (cancelled_ != nullptr && cancelled_->load(std::memory_order_relaxed)) {
      throw Error("cancelled");
    }
    std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace athanor::cuda
