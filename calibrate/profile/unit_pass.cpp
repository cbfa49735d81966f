// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/unit_pass.hpp"

#include <utility>

namespace athanor {

UnitPass::UnitPass(const Model& model, BoundUnits& bound, int unit, torch::Tensor input,
                   const Batch& batch, torch::Device device)
    : unit_(unit),
      is_last_(unit + 1 == static_cast<int>(model.units.size())),
      bound_(bound),
      runner_(bound.use(unit)),
      input_(std::move(input)),
      batch_(batch),
      device_(device) {}

void UnitPass::begin() {
  activations_ = {};
  if (input_.defined()) activations_.input = input_.detach().requires_grad_();
}

void UnitPass::forward(bool keep) {
  activation_or_gradient = runner_.forward(activations_, batch_, keep);
  if (is_last_) activation_or_gradient.reset();
}

void UnitPass::recompute() {
  static_cast<void>(runner_.forward(activations_, batch_, /*keep=*/true));
}

void UnitPass::backward() {
  bound_.clear_gradients(unit_);
  if (is_last_) {
    activation_or_gradient = torch::full({}, 1.0, torch::dtype(torch::kFloat32).device(device_));
  }
  activation_or_gradient =
      runner_.backward(activations_, std::exchange(activation_or_gradient, {}));
  activations_ = {};
}

void UnitPass::clear() {
  activations_ = {};
  activation_or_gradient.reset();
}

}  // namespace athanor
