// SPDX-License-Identifier: Apache-2.0
#include "executor/units/unit_runner.hpp"

#include "executor/units/torch_types.hpp"
#include "executor/units/vector_math.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"

#include <fmt/format.h>
#include <torch/autograd.h>

#include <algorithm>
#include <utility>

namespace athanor {

namespace {

/// Makes a flat tensor over memory that is set later and that it does not own.
torch::Tensor unbound_tensor(std::int64_t elements, torch::ScalarType dtype, torch::Device device) {
  const auto bytes = static_cast<std::size_t>(elements) * c10::elementSize(dtype);
  const c10::Storage storage(c10::Storage::use_byte_size_t(), bytes, c10::DataPtr(nullptr, device),
                             /*allocator=*/nullptr,
                             /*resizable=*/false);
  return torch::empty({0}, torch::TensorOptions().dtype(dtype).device(device))
      .set_(storage, 0, {elements}, {1});
}

void point_at(const torch::Tensor& tensor, void* memory) {
  tensor.storage().set_data_ptr_noswap(c10::DataPtr(memory, tensor.device()));
}

torch::Tensor view_at(const torch::Tensor& flat, std::int64_t offset, at::IntArrayRef shape) {
  const std::int64_t elements = c10::multiply_integers(shape);
  return flat.slice(0, offset, offset + elements).view(shape);
}

/// Returns the module's parameters after checking them against `unit`.
std::vector<torch::Tensor> checked_parameters(const UnitModule& module, const Unit& unit,
                                              DataType dtype) {
  std::vector<torch::Tensor> parameters = module.parameters();
  if (parameters.size() != unit.parameters.size()) {
    throw Error(fmt::format("{}: the module has {} parameters, the architecture {}", unit.name,
                            parameters.size(), unit.parameters.size()));
  }
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    if (parameters[i].sizes() != at::IntArrayRef(unit.parameters[i].shape) ||
        parameters[i].scalar_type() != torch_dtype(dtype)) {
      throw Error(fmt::format("{}: parameter '{}' has another shape or type in the module",
                              unit.name, unit.parameters[i].name));
    }
  }
  return parameters;
}

void require_gradient(const torch::Tensor& parameter) {
  const torch::Tensor& gradient = parameter.grad();
  if (!gradient.defined() || gradient.storage().data() == nullptr) {
    throw Error("backward: a parameter has no gradient buffer bound");
  }
}

/// Frees a tensor's memory while its graph lives on. Nothing may have saved it.
void free_memory(const torch::Tensor& tensor) { tensor.storage().unsafeGetStorageImpl()->reset(); }

/// Returns memory for what travels in place of `rows`, with `times` or a `share`-th of their
/// number.
torch::Tensor room_for(const torch::Tensor& rows, std::int64_t times, std::int64_t share = 1) {
  std::vector<std::int64_t> shape = rows.sizes().vec();
  shape.front() = shape.front() * times / share;
  return torch::empty(shape, rows.options());
}

torch::Tensor leaf(const torch::Tensor& tensor) { return tensor.detach().requires_grad_(); }

/// The gradient that backward has left in a leaf, in the form in which it can travel.
torch::Tensor take_gradient(torch::Tensor& of) {
  torch::Tensor gradient = std::exchange(of.mutable_grad(), {});
  if (!gradient.defined()) throw Error("backward: rows that travelled have no gradient");
  return gradient.contiguous();
}

/// Lets LibTorch take kernels that add in the order in which threads happen to run, unless
/// `deterministic`, until the end of its life. The setting is the process's; one thread at a time
/// issues phases, and nothing else that runs beside them depends on it. It is written only where
/// it changes, which is never on the CPU.
class BackwardKernels {
 public:
  explicit BackwardKernels(bool deterministic)
      : relaxes_(!deterministic && at::globalContext().deterministicAlgorithms()) {
    set_deterministic(false);
  }
  ~BackwardKernels() { set_deterministic(true); }
  BackwardKernels(const BackwardKernels&) = delete;
  BackwardKernels& operator=(const BackwardKernels&) = delete;

 private:
  void set_deterministic(bool value) const {
    if (relaxes_) at::globalContext().setDeterministicAlgorithms(value, /*warn_only=*/false);
  }
  bool relaxes_;
};

}  // namespace

UnitRunner::UnitRunner(std::shared_ptr<UnitModule> module, const Unit& unit, std::int64_t elements,
                       DataType dtype, torch::Device device)
    : module_(std::move(module)),
      parameter_storage_(unbound_tensor(elements, torch_dtype(dtype), device)),
      gradient_storage_(unbound_tensor(elements, torch_dtype(dtype), device)),
      parameters_(checked_parameters(*module_, unit, dtype)) {
  warm_up_vector_math();
  std::int64_t used = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(unit, used);
  if (used > elements) {
    throw Error(fmt::format("{}: {} elements of storage for {}", unit.name, elements, used));
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch::Tensor& parameter = parameters_[i];
    parameter.set_data(view_at(parameter_storage_, offsets[i], parameter.sizes()));
    parameter.mutable_grad() = view_at(gradient_storage_, offsets[i], parameter.sizes());
  }
}

void UnitRunner::bind_parameters(void* slot) { point_at(parameter_storage_, slot); }

void UnitRunner::bind_gradients(void* buffer) { point_at(gradient_storage_, buffer); }

torch::Tensor UnitRunner::forward(UnitActivations& activations, const Batch& batch, bool keep) {
  const at::AutoGradMode grad_mode(keep);
  const torch::Tensor& input = activations.input;
  const std::int64_t version = input.defined() ? input._version() : 0;
  torch::Tensor output = module_->forward(input, batch);
  if (input.defined() && input._version() != version) {
    // A recompute would start from a changed input, and the loss would depend on the plan.
    throw Error("a unit changed its input in place; units must leave their input as it is");
  }
  if (!keep) return output;
  activations.output = output;
  return output.detach();
}

void UnitRunner::differentiate(const std::vector<torch::Tensor>& outputs,
                               const std::vector<torch::Tensor>& gradients,
                               std::vector<torch::Tensor> leaves) const {
  const BackwardKernels kernels(deterministic_);
  // Naming the leaves keeps gradients out of everything else that the graph may reach.
  leaves.insert(leaves.begin(), parameters_.begin(), parameters_.end());
  for (const torch::Tensor& parameter : parameters_) require_gradient(parameter);
  torch::autograd::backward(outputs, gradients, /*retain_graph=*/false, /*create_graph=*/false,
                            leaves);
}

TravellingUnit& UnitRunner::travelling() const {
  auto* const unit = dynamic_cast<TravellingUnit*>(module_.get());
  if (unit == nullptr) throw Error("a unit has no stages, and its plan has");
  return *unit;
}

torch::Tensor UnitRunner::forward_stage(int stage, UnitActivations& activations, const Batch& batch,
                                        bool keep) {
  const at::AutoGradMode grad_mode(keep);
  Journey& journey = activations.journey;
  Departure& departure = journey.departure;
  if (stage == 0) {
    departure = travelling().depart(activations.input, batch);
    journey.home = departure.home;
    if (keep) std::ranges::transform(departure.home, journey.home.begin(), leaf);
    journey.received = room_for(departure.rows, travelling().rows_of_ranks());
    if (departure.slots.ends.defined()) journey.ends = torch::empty_like(departure.slots.ends);
    return {};
  }
  if (stage == 1) {
    free_memory(departure.rows);
    if (keep) journey.received.requires_grad_();
    journey.outputs = travelling().run_part(journey.received, journey.ends);
    journey.returned = room_for(journey.outputs, 1, travelling().rows_of_ranks());
    if (!keep) journey.received.reset();
    return {};
  }
  free_memory(journey.outputs);
  if (keep) journey.returned.requires_grad_();
  torch::Tensor output =
      travelling().arrive(journey.home, departure.slots, journey.returned, batch);
  if (!keep) {
    journey = {};
    return output;
  }
  activations.output = output;
  return output.detach();
}

torch::Tensor UnitRunner::backward_stage(int stage, UnitActivations& activations,
                                         torch::Tensor grad_output) {
  Journey& journey = activations.journey;
  if (stage == 0) {
    std::vector<torch::Tensor> leaves = journey.home;
    leaves.push_back(journey.returned);
    const torch::Tensor output = std::exchange(activations.output, {});
    differentiate({output}, {grad_output}, std::move(leaves));
    // Gradients that are sent take the place of the rows that came back.
    journey.returned = take_gradient(journey.returned);
    journey.to_outputs = room_for(journey.returned, travelling().rows_of_ranks());
    return {};
  }
  if (stage == 1) {
    journey.returned.reset();
    const torch::Tensor outputs = std::exchange(journey.outputs, {});
    differentiate({outputs}, {std::exchange(journey.to_outputs, {})}, {journey.received});
    journey.received = take_gradient(journey.received);
    journey.to_rows = room_for(journey.received, 1, travelling().rows_of_ranks());
    return {};
  }
  journey.received.reset();
  std::vector<torch::Tensor> outputs{std::move(journey.departure.rows)};
  std::vector<torch::Tensor> gradients{std::exchange(journey.to_rows, {})};
  for (std::size_t i = 0; i < journey.home.size(); ++i) {
    torch::Tensor gradient = std::exchange(journey.home[i].mutable_grad(), {});
    if (!gradient.defined()) continue;
    outputs.push_back(journey.departure.home[i]);
    gradients.push_back(std::move(gradient));
  }
  journey = {};
  differentiate(outputs, gradients, {activations.input});
  return std::exchange(activations.input.mutable_grad(), {});
}

std::vector<Travel> UnitRunner::travels(int stage, bool backward,
                                        const UnitActivations& activations) {
  const Journey& journey = activations.journey;
  if (backward) {
    return stage == 0 ? std::vector<Travel>{{journey.returned, journey.to_outputs}}
                      : std::vector<Travel>{{journey.received, journey.to_rows}};
  }
  if (stage == 1) return {{journey.outputs, journey.returned}};
  std::vector<Travel> travels{{journey.departure.rows, journey.received}};
  if (journey.ends.defined()) travels.push_back({journey.departure.slots.ends, journey.ends});
  return travels;
}

torch::Tensor UnitRunner::backward(UnitActivations& activations, torch::Tensor grad_output) {
  // Naming the leaves keeps gradients out of everything else that the graph may reach.
  std::vector<torch::Tensor> leaves = parameters_;
  for (const auto& [owner, tensor] : module_->borrowed()) leaves.push_back(tensor);
  for (const torch::Tensor& parameter : leaves) require_gradient(parameter);
  if (activations.input.defined()) leaves.push_back(activations.input);

  torch::Tensor output = std::exchange(activations.output, {});
  // A first unit without trainable parameters has nothing to differentiate.
  if (!leaves.empty()) {
    const BackwardKernels kernels(deterministic_);
    torch::autograd::backward({output}, {grad_output}, /*retain_graph=*/false,
                              /*create_graph=*/false, leaves);
  }
  output.reset();
  grad_output.reset();
  if (!activations.input.defined()) return {};
  return std::exchange(activations.input.mutable_grad(), {});
}

}  // namespace athanor
