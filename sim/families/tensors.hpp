// SPDX-License-Identifier: Apache-2.0
// Tensors: parameters of a unit under one prefix of names, and the FLOPs that they cost.
// ModelBuilder: units in execution order.
#pragma once

#include "sim/model/architecture.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace athanor {

enum class Norm { Rms, Layer, LayerWithoutBias, None };

/// Adds parameters to a unit, which outlives it. FLOPs count a token of the unit's own sequence:
/// text, patches of an image, or frames of sound.
class Tensors {
 public:
  Tensors(Unit& unit, std::string prefix) : unit_(&unit), prefix_(std::move(prefix)) {}

  /// Tensors of the module `name`, and of its part `index`.
  [[nodiscard]] Tensors in(std::string_view name) const;
  [[nodiscard]] Tensors in(std::string_view name, std::int64_t index) const;
  /// Tensors of which a token uses `share`, as it does of experts.
  [[nodiscard]] Tensors used(double share) const;

  /// A tensor that takes part in no matrix product: a table, a norm or a bias.
  void vector(std::string_view name, std::vector<std::int64_t> shape) const;
  /// A tensor that every token is multiplied with.
  void matrix(std::string_view name, std::vector<std::int64_t> shape) const;
  /// Weight [out, in] and, where `bias` says so, bias [out].
  void linear(std::string_view name, std::int64_t in, std::int64_t out, bool bias = false) const;
  void table(std::string_view name, std::int64_t rows, std::int64_t width) const;
  void norm(std::string_view name, std::int64_t width, Norm kind = Norm::Rms) const;
  /// Matrix product with a tensor of another unit.
  void borrow(int unit, const std::string& parameter, std::int64_t elements) const;
  /// Scores of queries that are `width` wide over all heads, and their product with the values.
  void attends(std::int64_t width, bool causal = true) const;

 private:
  Unit* unit_;
  std::string prefix_;
  double share_ = 1;
};

/// Collects units. A unit's class is its kind, with a number where shapes of one kind differ.
/// `where` stands for the file in messages.
class ModelBuilder {
 public:
  explicit ModelBuilder(std::string where) : where_(std::move(where)) {}
  /// Adds a unit. The result adds parameters to it under `prefix`.
  Tensors add(std::string name, std::string kind, std::string prefix);
  /// Adds to the unit that was added last.
  [[nodiscard]] Tensors more(std::string prefix) { return {units_.back(), std::move(prefix)}; }
  /// Index of the unit that was added last.
  [[nodiscard]] int last() const { return static_cast<int>(units_.size()) - 1; }
  [[nodiscard]] std::vector<Unit> finish();

 private:
  std::string where_;
  std::deque<Unit> units_;          // references to them stay valid
  std::size_t num_parameters_ = 0;  // those of all units but the last
};

}  // namespace athanor
