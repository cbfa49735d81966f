// SPDX-License-Identifier: Apache-2.0
#include "sim/families/tensors.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

namespace athanor {
namespace {

using Shapes = std::vector<std::vector<std::int64_t>>;

Shapes shapes_of(const Unit& unit) {
  Shapes shapes;
  for (const Parameter& parameter : unit.parameters) shapes.push_back(parameter.shape);
  return shapes;
}

}  // namespace

Tensors Tensors::in(std::string_view name) const {
  Tensors inner = *this;
  inner.prefix_ += fmt::format("{}.", name);
  return inner;
}

Tensors Tensors::in(std::string_view name, std::int64_t index) const {
  return in(fmt::format("{}.{}", name, index));
}

Tensors Tensors::used(double share) const {
  Tensors inner = *this;
  inner.share_ *= share;
  return inner;
}

void Tensors::vector(std::string_view name, std::vector<std::int64_t> shape) const {
  unit_->parameters.push_back({fmt::format("{}{}", prefix_, name), std::move(shape)});
}

void Tensors::matrix(std::string_view name, std::vector<std::int64_t> shape) const {
  vector(name, std::move(shape));
  double elements = 1;
  for (const std::int64_t dim : unit_->parameters.back().shape) {
    elements *= static_cast<double>(dim);
  }
  unit_->forward_flops_per_token += 2 * share_ * elements;
}

void Tensors::linear(std::string_view name, std::int64_t in, std::int64_t out, bool bias) const {
  matrix(fmt::format("{}.weight", name), {out, in});
  if (bias) vector(fmt::format("{}.bias", name), {out});
}

void Tensors::table(std::string_view name, std::int64_t rows, std::int64_t width) const {
  vector(fmt::format("{}.weight", name), {rows, width});
}

void Tensors::norm(std::string_view name, std::int64_t width, Norm kind) const {
  if (kind == Norm::None) return;
  vector(fmt::format("{}.weight", name), {width});
  if (kind == Norm::Layer) vector(fmt::format("{}.bias", name), {width});
}

void Tensors::borrow(int unit, const std::string& parameter, std::int64_t elements) const {
  unit_->borrows.push_back({unit, parameter});
  unit_->forward_flops_per_token += 2 * share_ * static_cast<double>(elements);
}

void Tensors::attends(std::int64_t width, bool causal) const {
  const double products = causal ? 2 : 4;  // a causal mask halves them
  unit_->forward_flops_per_token_per_context += products * static_cast<double>(width);
}

Tensors ModelBuilder::add(std::string name, std::string kind, std::string prefix) {
  constexpr std::size_t kMaxParameters = 200'000;
  if (!units_.empty()) num_parameters_ += units_.back().parameters.size();
  if (num_parameters_ > kMaxParameters) {
    throw InputError(where_, fmt::format("the model has more than {} tensors", kMaxParameters),
                     "Use the model's own config.json.");
  }
  units_.push_back({std::move(name), std::move(kind), {}, {}, 0, 0});
  return {units_.back(), std::move(prefix)};
}

std::vector<Unit> ModelBuilder::finish() {
  std::map<std::string, std::vector<Shapes>> classes;
  for (Unit& unit : units_) {
    std::vector<Shapes>& known = classes[unit.unit_class];
    const auto found = std::find(known.begin(), known.end(), shapes_of(unit));
    const auto number = found - known.begin();
    if (found == known.end()) known.push_back(shapes_of(unit));
    if (number > 0) unit.unit_class += fmt::format(".{}", number + 1);
  }
  return {std::make_move_iterator(units_.begin()), std::make_move_iterator(units_.end())};
}

}  // namespace athanor
