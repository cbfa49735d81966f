// SPDX-License-Identifier: Apache-2.0
// Forward, recompute and backward of the units, on the compute lane's thread.
#pragma once

#include "executor/run/batch_source.hpp"
#include "executor/run/compute_bindings.hpp"
#include "executor/run/rank_context.hpp"
#include "executor/run/step_state.hpp"
#include "executor/units/model.hpp"
#include "executor/units/unit_runner.hpp"

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace athanor {

/// Runs on the backend's device: at once on the host, on the calling thread's current stream on a
/// GPU. Holds what a micro-batch leaves between operations. Frees in the order that the profile
/// counts: a unit's input at the end of its backward, the batch at the end of the micro-batch.
class ComputeOps {
 public:
  ComputeOps(const RankContext& context, const Model& model, BatchSource batches);

  void forward(std::int32_t operation, const StepState& state);
  void recompute(std::int32_t operation);
  void backward(std::int32_t operation);

 private:
  void bind(const ComputeBinding& binding);
  void bind_gradients(const ComputeBinding& binding);
  void load_batch(const Operation& op, const StepState& state);
  [[nodiscard]] torch::Tensor to_device(const torch::Tensor& tensor) const;
  [[nodiscard]] torch::Tensor loss_scale() const;

  const RankContext& context_;
  torch::Device device_;
  BatchSource batches_;
  std::vector<ComputeBinding> bindings_;
  std::vector<UnitRunner> runners_;
  std::vector<UnitActivations> activations_;
  Batch batch_;
  torch::Tensor flow_;  ///< the last unit's output; in backward, the gradient that flows back
};

}  // namespace athanor
