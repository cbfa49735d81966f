// SPDX-License-Identifier: Apache-2.0
// Runs one unit's forward, recompute and backward. The profiler and the executor call this same
// code, so what a profile says about time and device memory is what training does, to the byte.
#pragma once

#include "executor/units/model.hpp"

#include <torch/torch.h>

#include <memory>
#include <vector>

namespace athanor {

/// What one unit holds of one micro-batch between forward and backward.
struct UnitActivations {
  torch::Tensor
      input;  ///< the detached leaf that backward differentiates to; undefined for the first unit
  torch::Tensor output;  ///< with its graph when saved; undefined after a discarding forward
};

/// The unit's parameters as views of one flat storage whose address can be set.
class UnitRunner {
 public:
  /// Replaces the module's parameters by views of one storage of `elements` elements (laid out by
  /// parameter_offsets), without memory behind it until bind_parameters.
  /// `device`: where that memory will be.
  UnitRunner(std::shared_ptr<UnitModule> module, const Unit& unit, std::int64_t elements,
             DataType dtype, torch::Device device = torch::kCPU);

  /// Points the parameters at a slot. Saved tensors follow: the storage object stays.
  void bind_parameters(void* slot);
  /// Points every parameter's gradient at a flat buffer of the same layout.
  void bind_gradients(void* buffer);

  /// keep: saves for backward. Otherwise runs without autograd and leaves only the returned output.
  /// `activations.input` must be set by the caller (detached, requires_grad) except for the first
  /// unit.
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

/// While alive on a thread, that thread's LibTorch CPU tensors come from `arena` (the CPU
/// backend's device memory). Installs the process-wide hook on first use. Null: nothing happens.
class DeviceArena;
class ArenaScope {
 public:
  explicit ArenaScope(DeviceArena& arena) : ArenaScope(&arena) {}
  explicit ArenaScope(DeviceArena* arena);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  DeviceArena* outer_;
};

}  // namespace athanor
