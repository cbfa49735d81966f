// SPDX-License-Identifier: Apache-2.0
// Forward and backward of one unit, with what stands for the units around it.
#pragma once

#include "calibrate/profile/bound_units.hpp"
#include "executor/units/model.hpp"
#include "executor/units/unit_runner.hpp"

#include <torch/types.h>

namespace athanor {

/// Runs one unit in the order of training. Results are freed as the executor frees them.
class UnitPass {
 public:
  /// `input` is the activation that the unit before gives; undefined for the first unit. `input`
  /// and `batch` are on `device`.
  UnitPass(const Model& model, BoundUnits& bound, int unit, torch::Tensor input, const Batch& batch,
           torch::Device device);

  /// Makes a leaf that shares the storage of the activation that the caller holds.
  void begin();
  /// Leaves the output; nothing where that is the loss, which is read elsewhere.
  void forward(bool keep);
  void recompute();
  /// Starts from the gradient of the output, or makes that of the loss. Leaves the input's.
  void backward();
  /// Frees what the unit has saved, and what the last call has left.
  void clear();

  /// Output of the last forward or, around backward, a gradient.
  torch::Tensor activation_or_gradient;

  /// Whether the unit ends in the loss.
  [[nodiscard]] bool is_last() const noexcept { return is_last_; }

 private:
  int unit_;
  bool is_last_;
  BoundUnits& bound_;
  UnitRunner& runner_;
  torch::Tensor input_;
  const Batch& batch_;
  torch::Device device_;
  UnitActivations activations_;
};

}  // namespace athanor
