// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/bound_units.hpp"

#include "executor/units/torch_types.hpp"
#include "sim/model/chunk_layout.hpp"

#include <torch/utils.h>

#include <algorithm>
#include <cstdint>
#include <utility>

namespace athanor {
namespace {

constexpr double kStandardDeviation = 0.02;  // as training starts; see initial_weights.cpp

void fill(const Parameter& parameter, const torch::Tensor& values) {
  if (parameter.name.ends_with(".bias")) {
    values.zero_();
  } else if (parameter.shape.size() == 1) {
    values.fill_(1.0);  // the weight of a norm
  } else {
    values.normal_(0.0, kStandardDeviation);
  }
}

}  // namespace

void fill_with_weights(const Unit& description, const torch::Tensor& flat,
                       const std::vector<torch::Tensor>& given) {
  const torch::NoGradGuard no_grad;
  std::int64_t used = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(description, used);
  flat.zero_();
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const Parameter& parameter = description.parameters[i];
    const torch::Tensor values =
        flat.slice(0, offsets[i], offsets[i] + parameter.num_elements()).view(parameter.shape);
    if (given.empty()) {
      fill(parameter, values);
    } else {
      values.copy_(given[i]);
    }
  }
}

BoundUnits::~BoundUnits() {
  while (!bound_.empty()) {
    unbind(bound_.begin()->first);
  }
}

UnitRunner& BoundUnits::use(int unit) {
  const std::vector<int> needed = needed_by(unit);
  for (auto next = bound_.begin(); next != bound_.end();) {
    const int other = (next++)->first;
    if (std::find(needed.begin(), needed.end(), other) == needed.end()) {
      unbind(other);
    }
  }
  for (const int other : needed) {
    if (!bound_.contains(other)) {
      meter_.run([&] { bind(other); });
    }
  }
  return bound_.at(unit).runner;
}

void BoundUnits::clear_gradients(int unit) {
  for (const int other : needed_by(unit)) {
    if (last_user(other) == unit) {
      bound_.at(other).gradients.zero_();
    }
  }
}

void BoundUnits::bind(int unit) {
  const Unit& description = model_.architecture.units.at(static_cast<std::size_t>(unit));
  const auto& module = model_.units.at(static_cast<std::size_t>(unit));
  std::int64_t elements = 0;
  static_cast<void>(parameter_offsets(description, elements));
  const auto options = torch::dtype(torch_dtype(model_.dtype)).device(meter_.device());
  std::vector<torch::Tensor> former;
  for (const torch::Tensor& parameter : module->parameters()) {
    former.push_back(parameter.detach());
  }
  Bound bound{torch::empty({elements}, options), torch::zeros({elements}, options),
              std::move(former),
              UnitRunner(module, description, elements, model_.dtype, meter_.device())};
  fill_with_weights(description, bound.parameters, module->initial_values());
  bound.runner.set_deterministic(deterministic_);
  bound.runner.bind_parameters(bound.parameters.mutable_data_ptr());
  bound.runner.bind_gradients(bound.gradients.mutable_data_ptr());
  bound_.emplace(unit, std::move(bound));
}

void BoundUnits::unbind(int unit) {
  Bound& bound = bound_.at(unit);
  std::vector<torch::Tensor> parameters = bound.runner.module().parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    parameters[i].mutable_grad().reset();
    parameters[i].set_data(bound.former[i]);
  }
  bound_.erase(unit);
}

/// Returns the units that have to be bound, owners first.
std::vector<int> BoundUnits::needed_by(int unit) const {
  std::vector<int> needed;
  for (const Borrow& borrow :
       model_.architecture.units.at(static_cast<std::size_t>(unit)).borrows) {
    if (std::find(needed.begin(), needed.end(), borrow.unit) == needed.end()) {
      needed.push_back(borrow.unit);
    }
  }
  needed.push_back(unit);
  return needed;
}

int BoundUnits::last_user(int unit) const {
  int last = unit;
  for (std::size_t other = 0; other < model_.architecture.units.size(); ++other) {
    for (const Borrow& borrow : model_.architecture.units[other].borrows) {
      last = borrow.unit == unit ? std::max(last, static_cast<int>(other)) : last;
    }
  }
  return last;
}

}  // namespace athanor
