// SPDX-License-Identifier: Apache-2.0
// A whole model run unit after unit on one thread: parameters and gradients of every unit bound,
// forward, then backward.
#pragma once

#include "executor/units/unit_runner.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace athanor::test {

class UnitChain {
 public:
  explicit UnitChain(Model model, torch::Device device = torch::kCPU);

  [[nodiscard]] const Model& model() const noexcept { return model_; }
  /// Fills every unit's parameters with its initial weights.
  void initialize(std::uint64_t seed);
  void set_parameters(int unit, std::span<const float> flat);

  /// Adds the gradients of one micro-batch and returns its loss.
  float step(const Batch& batch, float loss_scale = 1.0F);
  void clear_gradients();

  [[nodiscard]] std::int64_t elements(int unit) const { return slots_.at(unit).numel(); }
  [[nodiscard]] UnitRunner& runner(int unit) { return runners_.at(unit); }
  /// Flat storages, in the model's dtype.
  [[nodiscard]] torch::Tensor slot(int unit) const { return slots_.at(unit); }
  [[nodiscard]] torch::Tensor gradients(int unit) const { return gradients_.at(unit); }
  /// Returns the part of `flat` that belongs to parameter `index` of `unit`, in its shape.
  [[nodiscard]] torch::Tensor view(const torch::Tensor& flat, int unit, int index) const;

 private:
  Model model_;
  std::vector<UnitRunner> runners_;
  std::vector<torch::Tensor> slots_, gradients_;
};

/// Whether shapes, types and bits are equal.
[[nodiscard]] bool equal_bits(const torch::Tensor& a, const torch::Tensor& b);

}  // namespace athanor::test
