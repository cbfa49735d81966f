// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bound_units.hpp"

#include "executor/lanes/adam.hpp"
#include "executor/lanes/host_copy.hpp"
#include "sim/model/chunk_layout.hpp"

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

namespace athanor {
namespace {

constexpr std::uint64_t kSeed = 20;

void fill_with_weights(const Model& model, int unit, std::int64_t elements, void* slot) {
  std::vector<float> weights(static_cast<std::size_t>(elements));
  initial_weights(model, unit, kSeed, weights);
  if (model.dtype == DataType::Float32) {
    host_copy(slot, weights.data(), elements * size_of(model.dtype));
  } else {
    convert_to_bf16(weights, {static_cast<BFloat16Bits*>(slot), weights.size()}, 1);
  }
}

}  // namespace

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
      bind(other);
    }
  }
  return bound_.at(unit).runner;
}

void BoundUnits::clear_gradients(int unit) {
  for (const int other : needed_by(unit)) {
    const DeviceBlock& gradients = bound_.at(other).gradients;
    if (last_user(other) == unit && gradients.size() > 0) {
      std::memset(gradients.data(), 0, static_cast<std::size_t>(gradients.size()));
    }
  }
}

void BoundUnits::bind(int unit) {
  const Unit& description = model_.architecture.units.at(static_cast<std::size_t>(unit));
  const auto& module = model_.units.at(static_cast<std::size_t>(unit));
  std::int64_t elements = 0;
  static_cast<void>(parameter_offsets(description, elements));
  const Bytes bytes = elements * size_of(model_.dtype);
  std::vector<torch::Tensor> former;
  for (const torch::Tensor& parameter : module->parameters()) {
    former.push_back(parameter.detach());
  }
  Bound bound{DeviceBlock(memory_, bytes), DeviceBlock(memory_, bytes), std::move(former),
              UnitRunner(module, description, elements, model_.dtype)};
  fill_with_weights(model_, unit, elements, bound.parameters.data());
  bound.runner.bind_parameters(bound.parameters.data());
  bound.runner.bind_gradients(bound.gradients.data());
  if (bytes > 0) {
    std::memset(bound.gradients.data(), 0, static_cast<std::size_t>(bytes));
  }
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

/// Owners first.
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
