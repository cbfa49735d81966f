// SPDX-License-Identifier: Apache-2.0
// Runs one unit's forward, recompute and backward. The profiler and the executor both call this
// code, so a profile's times are those of training, and its device memory agrees to the byte.
#pragma once

#include "executor/units/model.hpp"

#include <torch/types.h>

#include <memory>
#include <vector>

namespace athanor {

/// One buffer that travels, and where what came from other ranks is written.
struct Travel {
  torch::Tensor from, to;
};

/// Tensors that a unit whose activations travel holds between its stages, and until backward.
struct Journey {
  Departure departure;
  std::vector<torch::Tensor> home;  ///< departure.home as leaves, which the last stage reads
  torch::Tensor received, ends;     ///< rows of all ranks, and where each expert's end
  torch::Tensor outputs, returned;  ///< results here, and those of this rank's rows
  torch::Tensor to_outputs;         ///< gradient of the outputs
  torch::Tensor to_rows;            ///< gradient of this rank's rows
};

/// Tensors that one unit holds for one micro-batch between forward and backward.
struct UnitActivations {
  /// Detached leaf that backward differentiates to; undefined for the first unit.
  torch::Tensor input;
  /// Output with its graph; undefined after a forward that discards.
  torch::Tensor output;
  Journey journey;  ///< used by a TravellingUnit
};

/// A unit whose parameters are views of one flat storage with an address that can be set.
class UnitRunner {
 public:
  /// Replaces the module's parameters by views of one storage of `elements` elements on `device`,
  /// laid out by parameter_offsets. The storage has no memory until bind_parameters. Throws Error
  /// when module and `unit` disagree.
  UnitRunner(std::shared_ptr<UnitModule> module, const Unit& unit, std::int64_t elements,
             DataType dtype, torch::Device device = torch::kCPU);

  /// Lets backward take LibTorch's fastest kernels where `deterministic` is false: gradients then
  /// differ in the last bits from run to run. Forward stays deterministic, so that a recompute
  /// gives what forward gave. The CPU has one kind of kernels.
  void set_deterministic(bool deterministic) noexcept { deterministic_ = deterministic; }

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

  /// Runs one stage, 0 to 2, of a TravellingUnit's forward. Before the next one, travels(..) have
  /// to be made. The last stage returns the unit's output, as forward() does.
  [[nodiscard]] torch::Tensor forward_stage(int stage, UnitActivations& activations,
                                            const Batch& batch, bool keep);
  /// Runs one stage of its backward: 0 takes `grad_output`, and 2 returns the input's gradient.
  [[nodiscard]] torch::Tensor backward_stage(int stage, UnitActivations& activations,
                                             torch::Tensor grad_output);
  /// Returns what travels after `stage`. The tensors have their memory from the stage on.
  [[nodiscard]] static std::vector<Travel> travels(int stage, bool backward,
                                                   const UnitActivations& activations);

  [[nodiscard]] UnitModule& module() noexcept { return *module_; }

 private:
  [[nodiscard]] TravellingUnit& travelling() const;
  /// Differentiates `outputs` to the parameters and to `leaves`.
  void differentiate(const std::vector<torch::Tensor>& outputs,
                     const std::vector<torch::Tensor>& gradients,
                     std::vector<torch::Tensor> leaves) const;

  std::shared_ptr<UnitModule> module_;
  torch::Tensor parameter_storage_, gradient_storage_;
  std::vector<torch::Tensor> parameters_;
  bool deterministic_ = true;
};

}  // namespace athanor
