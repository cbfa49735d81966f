// SPDX-License-Identifier: Apache-2.0
// Runs one unit's forward, recompute and backward. The profiler and the executor both call this
// code, so a profile's times are those of training, and its device memory agrees to the byte.
#pragma once

#include "executor/units/model.hpp"

#include <torch/types.h>

#include <memory>
#include <vector>

namespace athanor {

/// Tensors that one unit holds for one micro-batch between forward and backward.
struct UnitActivations {
  /// Detached leaf that backward differentiates to; undefined for the first unit.
  torch::Tensor input;
  /// Output with its graph; undefined after a forward that discards.
  torch::Tensor output;
};

/// A unit whose parameters are views of one flat storage with an address that can be set.
class UnitRunner {
 public:
  /// Replaces the module's parameters by views of one storage of `elements` elements on `device`,
  /// laid out by parameter_offsets. The storage has no memory until bind_parameters. Throws Error
  /// when module and `unit` disagree.
  UnitRunner(std::shared_ptr<UnitModule> module, const Unit& unit, std::int64_t elements,
             DataType dtype, torch::Device device = torch::kCPU);

  /// Points the parameters at a slot. Saved tensors follow: the storage object stays.
  void bind_parameters(void* slot);
  /// Points every parameter's gradient at a flat buffer of the same layout.
  void bind_gradients(void* buffer);

  /// Returns the unit's output. With `keep`, saves for backward; otherwise runs without autograd
  /// and leaves nothing else. The caller must set `activations.input` (detached, requires_grad)
  /// except for the first unit. Throws Error when the unit changes its input in place.
  [[nodiscard]] torch::Tensor forward(UnitActivations& activations, const Batch& batch, bool keep);
  /// Consumes the saved graph and `grad_output` (a scale for the last unit's loss), adds parameter
  /// gradients into the bound buffers and returns the input's gradient (undefined for the first
  /// unit).
  [[nodiscard]] torch::Tensor backward(UnitActivations& activations, torch::Tensor grad_output);

  [[nodiscard]] UnitModule& module() noexcept { return *module_; }

 private:
  std::shared_ptr<UnitModule> module_;
  torch::Tensor parameter_storage_, gradient_storage_;
  std::vector<torch::Tensor> parameters_;
};

}  // namespace athanor
