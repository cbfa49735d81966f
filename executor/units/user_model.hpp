// SPDX-License-Identifier: Apache-2.0
// A user's own LibTorch modules as a model.
#pragma once

#include "executor/units/model.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace athanor {

/// One unit of a user's own model. `forward` maps the activation (for the first unit: batch.inputs)
/// to the next one. It must be a function of its input and the module's parameters alone, because
/// recomputation runs it again. Modules that draw random numbers (dropout) or keep batch statistics
/// are refused.
struct UserUnit {
  std::string name;
  std::shared_ptr<torch::nn::Module> module;
  std::function<torch::Tensor(torch::Tensor)> forward;
};

/// Wraps a user's own modules. `loss` turns the last unit's output (in fp32) and the batch into a
/// scalar. `random_batch` makes a batch of as many samples as it is asked for, for profiling.
/// Floating-point parameters, buffers and inputs are converted to `dtype`. A parameter that several
/// units hold belongs to the first; parameters without requires_grad stay as they are. Inner units
/// share a unit class when their parameter names, their shapes and their modules' printed forms are
/// equal; the first and the last unit have classes of their own. Throws InputError for a module
/// that is refused, Error for an incomplete unit.
[[nodiscard]] Model make_user_model(
    const std::string& name, const std::vector<UserUnit>& units,
    const std::function<torch::Tensor(torch::Tensor, const Batch&)>& loss,
    std::function<Batch(std::int64_t)> random_batch, DataType dtype);

}  // namespace athanor
