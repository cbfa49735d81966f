// SPDX-License-Identifier: Apache-2.0
// A model as athanor runs it: LibTorch modules, one per unit, built-in or a user's own.
#pragma once

#include "executor/layers/packing.hpp"
#include "sim/model/architecture.hpp"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace athanor {

/// The data of one micro-batch. For token data, inputs and targets are int64 [batch, sequence].
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
  /// Nothing: every sequence is one document, and all targets are learnt.
  std::optional<Packing> packing = std::nullopt;
};

/// One unit as a module. The first unit gets an undefined activation and reads batch.inputs; the
/// last returns the mean loss of the micro-batch (a scalar). Parameters are registered as in any
/// torch::nn::Module.
class UnitModule : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor activation, const Batch& batch) = 0;
  /// Parameters of other units that forward reads (tied weights): (owner's unit index, tensor).
  [[nodiscard]] virtual std::vector<std::pair<int, torch::Tensor>> borrowed() const { return {}; }
  /// Values that training starts from, one per registered parameter. An empty list stands for the
  /// family's rule (initial_weights.hpp).
  [[nodiscard]] virtual std::vector<torch::Tensor> initial_values() const { return {}; }
};

/// A list of units in execution order, with the architecture that lowering needs.
/// `architecture.units[i].parameters` describes the registered parameters of `units[i]`, in the
/// same order and with the same shapes.
struct Model {
  Architecture architecture;
  std::vector<std::shared_ptr<UnitModule>> units;
  DataType dtype = DataType::Float32;
  /// Makes a batch of `num_samples` random samples, for profiling.
  std::function<Batch(std::int64_t num_samples)> random_batch;
};

}  // namespace athanor
