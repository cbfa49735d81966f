// SPDX-License-Identifier: Apache-2.0
// A model's parameters by number, and the modules that they belong to. Internal to this folder.
#pragma once

#include "sim/model/architecture.hpp"

#include <cstddef>
#include <vector>

namespace athanor {

/// Parameters of each module of a unit, by number.
using Modules = std::vector<std::vector<int>>;

/// All parameters of an architecture, numbered in the order of its units. The architecture outlives
/// the list.
class ParameterList {
 public:
  explicit ParameterList(const Architecture& architecture);

  [[nodiscard]] int number(std::size_t unit, std::size_t parameter) const;
  [[nodiscard]] int number_of(const Borrow& borrow) const;
  /// Returns the modules of `unit`. A module is a run of parameters whose names differ after the
  /// last dot only. Borrowed parameters are modules of their own, because another module uses them.
  [[nodiscard]] Modules modules_of(std::size_t unit) const;

 private:
  const Architecture& architecture_;
  std::vector<int> first_;
};

}  // namespace athanor
