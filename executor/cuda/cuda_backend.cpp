// SPDX-License-Identifier: Apache-2.0
// The executor's entry into the plugin.
#include "executor/backend/collectives_local.hpp"
#include "executor/backend/cuda_plugin.hpp"
#include "executor/cuda/cuda_device.hpp"
#include "executor/cuda/meet_ranks.hpp"
#include "executor/cuda/nccl_collectives.hpp"
#include "executor/cuda/stream_lanes.hpp"
#include "executor/cuda/torch_settings.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <optional>
#include <string>
#include <utility>

namespace athanor::cuda {
namespace {

int checked_index(const RankInfo& rank) {
  const int devices = device_count();
  if (rank.local_rank < devices) return rank.local_rank;
  throw InputError("--gpus",
                   std::to_string(rank.local_rank + 1) + " GPUs are needed on this machine, and " +
                       std::to_string(devices) + " are here",
                   "Make a plan for fewer GPUs (athanor tune --gpus).");
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaRank& rank)
      : device_(checked_index(rank.rank), rank.memory_limit) {
    make_torch_deterministic();
    device_.make_current();
    if (rank.rank.world_size == 1) {
      local_ = make_local_collectives();
      return;
    }
    communicator_.emplace(rank.rank, meet_ranks(rank.rank));
    const cudaStream_t stream = device_.stream(Lane::Collective);
    stream_collectives_.emplace(*communicator_, stream);
    host_collectives_.emplace(*communicator_, stream);
  }

  [[nodiscard]] Device& device() override { return device_; }
  [[nodiscard]] Collectives& collectives() override {
    return local_ ? *local_ : static_cast<Collectives&>(*stream_collectives_);
  }
  [[nodiscard]] Collectives& host_collectives() override {
    return local_ ? *local_ : static_cast<Collectives&>(*host_collectives_);
  }
  [[nodiscard]] std::unique_ptr<Lanes> start_lanes(const Program& program, std::int64_t first_step,
                                                   LaneCallbacks callbacks,
                                                   std::atomic<bool>& cancelled) override {
    return std::make_unique<StreamLanes>(device_, program, first_step, std::move(callbacks),
                                         cancelled, [this] {
                                           if (communicator_) communicator_->abort();
                                         });
  }

 private:
  CudaDevice device_;
  std::unique_ptr<Collectives> local_;  ///< one rank
  std::optional<NcclCommunicator> communicator_;
  std::optional<StreamCollectives> stream_collectives_;
  std::optional<HostCollectives> host_collectives_;
};

}  // namespace
}  // namespace athanor::cuda

extern "C" __attribute__((visibility("default"))) athanor::Backend* athanor_make_cuda_backend(
    const athanor::CudaRank* rank) {
  return new athanor::cuda::CudaBackend(*rank);
}
