// SPDX-License-Identifier: Apache-2.0
#include "executor/units/user_model.hpp"

#include "executor/units/torch_types.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <torch/nn.h>

#include <algorithm>
#include <map>
#include <sstream>

namespace athanor {

namespace {

using Loss = std::function<torch::Tensor(torch::Tensor, const Batch&)>;

torch::Tensor to_floating(const torch::Tensor& tensor, torch::ScalarType dtype) {
  return tensor.is_floating_point() ? tensor.to(dtype) : tensor;
}

class UserUnitModule final : public UnitModule {
 public:
  UserUnitModule(UserUnit unit, bool first, Loss loss, torch::ScalarType dtype)
      : unit_(std::move(unit)), first_(first), loss_(std::move(loss)), dtype_(dtype) {}

  /// Registers `parameter`, which no earlier unit has. Training starts from its present value.
  void own(const torch::Tensor& parameter) {
    initial_values_.push_back(parameter.detach());
    register_parameter("parameter_" + std::to_string(initial_values_.size()), parameter);
  }
  void borrow(int owner, const torch::Tensor& parameter) {
    borrowed_.emplace_back(owner, parameter);
  }

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    torch::Tensor output =
        unit_.forward(first_ ? to_floating(batch.inputs, dtype_) : std::move(activation));
    return loss_ ? loss_(to_floating(output, torch::kFloat32), batch) : output;
  }
  [[nodiscard]] std::vector<std::pair<int, torch::Tensor>> borrowed() const override {
    return borrowed_;
  }
  [[nodiscard]] std::vector<torch::Tensor> initial_values() const override {
    return initial_values_;
  }

 private:
  UserUnit unit_;
  bool first_;
  Loss loss_;  ///< set for the last unit only
  torch::ScalarType dtype_;
  std::vector<torch::Tensor> initial_values_;
  std::vector<std::pair<int, torch::Tensor>> borrowed_;
};

template <class... Modules>
bool is_any_of(const torch::nn::Module& module) {
  return ((dynamic_cast<const Modules*>(&module) != nullptr) || ...);
}

bool is_repeatable(const torch::nn::Module& module) {
  namespace nn = torch::nn;
  return !is_any_of<nn::DropoutImpl, nn::Dropout2dImpl, nn::Dropout3dImpl, nn::AlphaDropoutImpl,
                    nn::FeatureAlphaDropoutImpl, nn::RReLUImpl, nn::BatchNorm1dImpl,
                    nn::BatchNorm2dImpl, nn::BatchNorm3dImpl>(module);
}

void check(const std::string& model, const std::vector<UserUnit>& units) {
  if (units.empty()) throw Error(model + ": a model needs at least one unit");
  for (const UserUnit& unit : units) {
    if (!unit.module || !unit.forward) {
      throw Error(fmt::format("{}: unit '{}' lacks a module or a forward", model, unit.name));
    }
    for (const auto& module : unit.module->modules()) {
      if (module->is_training() && !is_repeatable(*module)) {
        throw InputError(fmt::format("{}:{}", model, unit.name),
                         fmt::format("{} gives another result when it runs again", module->name()),
                         "Leave dropout and batch statistics out, or call eval() on that module.");
      }
    }
  }
}

/// The unit that owns a parameter, and the parameter's name.
struct Owner {
  int unit;
  std::string name;
};
using Owners = std::map<const at::TensorImpl*, Owner>;

Unit describe(const UserUnit& user, int index, Owners& owners, UserUnitModule& wrapper) {
  Unit unit;
  unit.name = user.name;
  for (const auto& item : user.module->named_parameters()) {
    const torch::Tensor& parameter = item.value();
    if (!parameter.requires_grad()) continue;
    const auto [owner, is_new] = owners.try_emplace(parameter.unsafeGetTensorImpl(),
                                                    Owner{index, user.name + "." + item.key()});
    if (is_new) {
      unit.parameters.push_back({owner->second.name, parameter.sizes().vec()});
      wrapper.own(parameter);
    } else if (owner->second.unit != index) {
      unit.borrows.push_back({owner->second.unit, owner->second.name});
      wrapper.borrow(owner->second.unit, parameter);
    }
  }
  return unit;
}

/// Returns a text that is equal for units whose profiles must be equal.
std::string class_key(const UserUnit& user, const Unit& unit) {
  std::ostringstream key;
  key << *user.module;
  for (const Parameter& parameter : unit.parameters) {
    key << '\n' << parameter.name.substr(unit.name.size()) << at::IntArrayRef(parameter.shape);
  }
  for (const Borrow& borrow : unit.borrows) key << '\n' << borrow.unit << borrow.parameter;
  return key.str();
}

void assign_classes(const std::vector<UserUnit>& users, std::vector<Unit>& units) {
  std::map<std::string, std::string> classes;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const bool inner = i > 0 && i + 1 < units.size();
    units[i].unit_class =
        inner ? classes.try_emplace(class_key(users[i], units[i]), units[i].name).first->second
              : units[i].name;
  }
}

/// Converts parameters and buffers. Call it after the initial values were taken, so that they keep
/// their full precision.
void convert(torch::nn::Module& module, torch::ScalarType dtype) {
  for (torch::Tensor& parameter : module.parameters()) {
    parameter.set_data(to_floating(parameter.detach(), dtype));
  }
  for (torch::Tensor& buffer : module.buffers()) buffer.set_data(to_floating(buffer, dtype));
}

}  // namespace

Model make_user_model(const std::string& name, const std::vector<UserUnit>& units, const Loss& loss,
                      std::function<Batch(std::int64_t)> random_batch, DataType dtype) {
  check(name, units);
  Model model;
  model.architecture.name = name;
  model.dtype = dtype;
  model.random_batch = std::move(random_batch);
  Owners owners;
  for (std::size_t i = 0; i < units.size(); ++i) {
    const bool last = i + 1 == units.size();
    const auto wrapper = std::make_shared<UserUnitModule>(units[i], i == 0, last ? loss : Loss(),
                                                          torch_dtype(dtype));
    model.architecture.units.push_back(describe(units[i], static_cast<int>(i), owners, *wrapper));
    model.units.push_back(wrapper);
  }
  assign_classes(units, model.architecture.units);
  for (const UserUnit& unit : units) convert(*unit.module, torch_dtype(dtype));
  model.architecture.validate(name);
  return model;
}

}  // namespace athanor
