// SPDX-License-Identifier: Apache-2.0
// Forward, recompute and backward of the units, on the compute lane's thread.
#pragma once

#include "executor/batches/batch_source.hpp"
#include "executor/recording/recorded_phases.hpp"
#include "executor/train/collective_ops.hpp"
#include "executor/train/compute_bindings.hpp"
#include "executor/train/rank_context.hpp"
#include "executor/train/step_state.hpp"
#include "executor/units/model.hpp"
#include "executor/units/unit_runner.hpp"

#include <torch/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace athanor {

/// Device memory of a unit's output that goes to the host or comes back.
struct DeviceOutput {
  std::byte* memory = nullptr;
  Bytes bytes = 0;
};

/// Makes a runner for each unit of `model`, with the storage that the program's layouts give it.
/// Units whose activations travel are replaced by what this rank holds of them.
[[nodiscard]] std::vector<UnitRunner> make_unit_runners(Model& model, const Plan& plan,
                                                        const Program& program, int rank,
                                                        const Device& device);

/// Runs units on the backend's device: at once on the host, on the calling thread's current stream
/// on a GPU. It holds the tensors of a group's micro-batches between operations. Memory is freed in
/// the order that the profile counts: a unit's input at the end of its backward, the batch at the
/// end of the micro-batch.
///
/// Under Plan::cuda_graphs a phase that is issued again as it was recorded touches none of these
/// tensors: it reads the batch where it lies and leaves the loss where it is fetched.
class ComputeOps {
 public:
  /// `runners` [unit] outlive it. Programs that never run at once may share them.
  ComputeOps(const RankContext& context, const Architecture& architecture,
             std::vector<UnitRunner>& runners, BatchSource batches);

  void forward(std::int32_t operation, const StepState& state);
  void recompute(std::int32_t operation);
  void backward(std::int32_t operation);

  /// The buffers that travel in an exchange. The stage before it has made them.
  [[nodiscard]] std::vector<TravellingBytes> travels(std::int32_t operation) const;

  /// Device memory of recorded phases, beside that of their tensors. Any thread may ask.
  [[nodiscard]] Bytes recorded_bytes() const noexcept { return phases_.bytes(); }

  /// The output that `copy` takes to the host or back. Its forward sets it, and the operation
  /// before the copy back sets it again.
  [[nodiscard]] const DeviceOutput& output(const Operation& copy) const {
    return members_.at(copy.member).outputs.at(copy.unit);
  }

 private:
  /// All that is needed to allocate a tensor again.
  struct TensorShape {
    std::vector<std::int64_t> sizes;
    torch::TensorOptions options;
  };

  /// The tensors of one micro-batch of the group that is computed.
  struct Member {
    explicit Member(std::size_t num_units)
        : activations(num_units), outputs(num_units), dropped(num_units) {}

    std::vector<UnitActivations> activations;  ///< [unit]
    std::vector<DeviceOutput> outputs;         ///< [unit]
    std::vector<TensorShape> dropped;          ///< [unit]: shape of an input that is on the host
    Batch batch;
    /// Output of the last forward or, in backward, the gradient that the next backward starts from.
    torch::Tensor activation_or_gradient;
  };

  /// An output whose place an operation set.
  struct PlacedOutput {
    DeviceOutput* output = nullptr;
    DeviceOutput place;
  };

  void run(std::int32_t operation, const std::function<void()>& work);
  void forward_phase(std::int32_t operation, const StepState& state);
  void backward_phase(std::int32_t operation);
  void place_output(Member& member, std::size_t unit, DeviceOutput place);
  void put_loss(Member& member, double* loss) const;
  [[nodiscard]] double* recorded_loss(std::int32_t micro_batch) const;
  void forget_batch(Member& member) const;
  [[nodiscard]] torch::Tensor run_forward(std::int32_t operation, bool keep);
  [[nodiscard]] bool sends_tokens(const Operation& op) const;
  void require_own_documents() const;
  void note_rows(std::int32_t operation, const StepState& state);
  [[nodiscard]] Member& member_of(const Operation& op) { return members_.at(op.member); }
  void bind(const ComputeBinding& binding);
  void bind_gradients(const ComputeBinding& binding);
  void load_batch(const Operation& op, const StepState& state);
  void put_batch(Batch& batch, Batch host) const;
  void keep_output(Member& member, std::size_t unit);
  void drop_and_take_outputs(const ComputeBinding& binding);
  [[nodiscard]] torch::Tensor to_device(const torch::Tensor& tensor) const;
  [[nodiscard]] double mean_targets(const Packing& packing, std::int64_t step) const;
  [[nodiscard]] torch::Tensor loss_scale() const;

  const RankContext& context_;
  torch::Device device_;
  BatchSource batches_;
  std::vector<ComputeBinding> bindings_;  ///< [operation]
  std::vector<UnitRunner>& runners_;      ///< [unit]
  std::vector<Member> members_;           ///< micro-batches of the group
  std::vector<bool> has_attention_;       ///< [unit]
  std::int32_t first_departure_ = -1;     ///< operation that first makes tokens depart; -1: none
  RecordedPhases phases_;
  std::vector<std::vector<PlacedOutput>> placed_;       ///< [operation], where phases are recorded
  std::vector<PlacedOutput>* placed_by_now_ = nullptr;  ///< those of the operation that runs
  MemoryBlock recorded_losses_;  ///< [micro-batch]; where phases are recorded
};

}  // namespace athanor
