// SPDX-License-Identifier: Apache-2.0
#include "sim/policy/parameter_list.hpp"

#include <algorithm>
#include <string_view>

namespace athanor {
namespace {

std::string_view module_of(std::string_view parameter) {
  const std::size_t dot = parameter.rfind('.');
  return dot == std::string_view::npos ? parameter : parameter.substr(0, dot);
}

}  // namespace

ParameterList::ParameterList(const Architecture& architecture) : architecture_(architecture) {
  int next = 0;
  for (const Unit& unit : architecture.units) {
    first_.push_back(next);
    next += static_cast<int>(unit.parameters.size());
  }
}

int ParameterList::number(std::size_t unit, std::size_t parameter) const {
  return first_[unit] + static_cast<int>(parameter);
}

int ParameterList::number_of(const Borrow& borrow) const {
  const auto unit = static_cast<std::size_t>(borrow.unit);
  const auto& parameters = architecture_.units[unit].parameters;
  const auto found = std::ranges::find(parameters, borrow.parameter, &Parameter::name);
  return number(unit, static_cast<std::size_t>(found - parameters.begin()));
}

Modules ParameterList::modules_of(std::size_t unit) const {
  Modules modules;
  const Unit& of = architecture_.units[unit];
  for (std::size_t p = 0; p < of.parameters.size(); ++p) {
    const bool continues =
        p > 0 && module_of(of.parameters[p].name) == module_of(of.parameters[p - 1].name);
    if (!continues) modules.emplace_back();
    modules.back().push_back(number(unit, p));
  }
  for (const Borrow& borrow : of.borrows) modules.push_back({number_of(borrow)});
  return modules;
}

}  // namespace athanor
