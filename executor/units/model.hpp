// SPDX-License-Identifier: Apache-2.0
// A model as athanor runs it: LibTorch modules, one per unit, ours or a user's own.
#pragma once

#include "sim/model/architecture.hpp"

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

/// What one micro-batch reads. Tokens: inputs and targets int64 [batch, sequence].
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
};

/// One unit. The first unit gets an undefined activation and reads batch.inputs; the last returns
/// the mean loss of the micro-batch (a scalar). Parameters are registered as in any
/// torch::nn::Module.
class UnitModule : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor activation, const Batch& batch) = 0;
  /// Parameters of other units that forward reads (tied weights): (owner's unit index, tensor).
  [[nodiscard]] virtual std::vector<std::pair<int, torch::Tensor>> borrowed() const { return {}; }
  /// Values that training starts from, one per registered parameter; empty: the family's rule.
  [[nodiscard]] virtual std::vector<torch::Tensor> initial_values() const { return {}; }
};

/// A named list of units in execution order, with the architecture that lowering needs.
/// `architecture.units[i].parameters` are `units[i]`'s registered parameters, same order, same
/// shapes.
struct Model {
  Architecture architecture;
  std::vector<std::shared_ptr<UnitModule>> units;
  DataType dtype = DataType::Float32;
  /// Makes the batch tensors of `num_samples` random samples (profiling).
  std::function<Batch(std::int64_t num_samples)> random_batch;
};

/// The built-in language models. Parameters are allocated but not initialized. Throws InputError
/// when the model has no room for `sequence_length` positions, Error when `architecture` is not
/// what its family needs.
[[nodiscard]] Model make_language_model(const Architecture& architecture, DataType dtype,
                                        std::int64_t sequence_length);

/// One of a user's own units. `forward` maps the activation (the first unit's: batch.inputs) to the
/// next. It must be a function of its input and the module's parameters alone: recomputation runs
/// it again. Modules that draw random numbers (dropout) or keep batch statistics are refused.
struct UserUnit {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(torch::Tensor)> forward;
};

/// Wraps a user's own modules. `loss` turns the last one's output (in fp32) and the batch into a
/// scalar. Floating-point parameters, buffers and inputs are converted to `dtype`. A parameter that
/// several units hold belongs to the first; parameters without requires_grad stay as they are.
/// Unit classes are found by comparing parameter names and shapes and the modules' printed form;
/// the first and the last unit have classes of their own.
[[nodiscard]] Model make_user_model(
    const std::string& name, const std::vector<UserUnit>& units,
    const std::function<torch::Tensor(torch::Tensor, const Batch&)>& loss,
    std::function<Batch(std::int64_t)> random_batch, DataType dtype);

/// Writes unit `unit`'s initial weights into `flat` (fp32, the unit's flat storage, see
/// chunk_layout.hpp; padding is zero). Depends on (seed, parameter name) alone, never on the plan.
/// Language models follow their family's initialisation (normal 0.02, scaled residuals for gpt2);
/// a user's modules keep the values they were constructed with.
void initial_weights(const Model& model, int unit, std::uint64_t seed, std::span<float> flat);

}  // namespace athanor
