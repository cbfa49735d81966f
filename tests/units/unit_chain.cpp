// SPDX-License-Identifier: Apache-2.0
#include "tests/units/unit_chain.hpp"

#include "executor/units/initial_weights.hpp"
#include "executor/units/torch_types.hpp"
#include "sim/model/chunk_layout.hpp"

#include <cstring>

namespace athanor::test {

UnitChain::UnitChain(Model model, torch::Device device) : model_(std::move(model)) {
  for (std::size_t i = 0; i < model_.units.size(); ++i) {
    const Unit& unit = model_.architecture.units[i];
    std::int64_t elements = 0;
    (void)parameter_offsets(unit, elements);
    slots_.push_back(
        torch::zeros({elements}, torch::dtype(torch_dtype(model_.dtype)).device(device)));
    gradients_.push_back(torch::zeros_like(slots_.back()));
    runners_.emplace_back(model_.units[i], unit, elements, model_.dtype, device);
    runners_.back().bind_parameters(slots_.back().data_ptr());
    runners_.back().bind_gradients(gradients_.back().data_ptr());
  }
}

void UnitChain::initialize(std::uint64_t seed) {
  for (int i = 0; i < static_cast<int>(runners_.size()); ++i) {
    std::vector<float> flat(static_cast<std::size_t>(elements(i)));
    initial_weights(model_, i, seed, 0, flat, 1);
    set_parameters(i, flat);
  }
}

void UnitChain::set_parameters(int unit, std::span<const float> flat) {
  const torch::Tensor values =
      torch::from_blob(const_cast<float*>(flat.data()), {static_cast<std::int64_t>(flat.size())});
  slots_.at(unit).copy_(values);
}

float UnitChain::step(const Batch& batch, float loss_scale) {
  std::vector<UnitActivations> activations(runners_.size());
  torch::Tensor flow;
  for (std::size_t i = 0; i < runners_.size(); ++i) {
    if (i > 0) activations[i].input = flow.requires_grad_();
    flow = runners_[i].forward(activations[i], batch, /*keep=*/true);
  }
  const auto loss = flow.item<float>();
  flow = torch::full({}, loss_scale, torch::dtype(torch::kFloat32).device(slots_[0].device()));
  for (std::size_t i = runners_.size(); i-- > 0;) {
    flow = runners_[i].backward(activations[i], flow);
    activations[i] = {};
  }
  return loss;
}

void UnitChain::clear_gradients() {
  for (torch::Tensor& gradient : gradients_) gradient.zero_();
}

torch::Tensor UnitChain::view(const torch::Tensor& flat, int unit, int index) const {
  const Unit& description = model_.architecture.units.at(unit);
  std::int64_t elements = 0;
  const std::int64_t offset = parameter_offsets(description, elements).at(index);
  const Parameter& parameter = description.parameters.at(index);
  return flat.slice(0, offset, offset + parameter.num_elements()).view(parameter.shape);
}

bool equal_bits(const torch::Tensor& a, const torch::Tensor& b) {
  const torch::Tensor left = a.contiguous();
  const torch::Tensor right = b.contiguous();
  return left.sizes() == right.sizes() && left.scalar_type() == right.scalar_type() &&
         std::memcmp(left.data_ptr(), right.data_ptr(), left.nbytes()) == 0;
}

}  // namespace athanor::test
