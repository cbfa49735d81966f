// SPDX-License-Identifier: Apache-2.0
// Units whose parameters are bound to weights and gradient buffers, a few units at a time.
#pragma once

#include "calibrate/profile/unit_meter.hpp"
#include "executor/units/model.hpp"
#include "executor/units/unit_runner.hpp"

#include <torch/types.h>

#include <map>
#include <vector>

namespace athanor {

/// Draws a unit's weights on the device, or takes those that are `given`. A profile only needs the
/// values' distribution. To draw billions of values on the host would take longer than measuring.
void fill_with_weights(const Unit& description, const torch::Tensor& flat,
                       const std::vector<torch::Tensor>& given = {});

/// Binds a unit and those that it borrows from to memory of the meter's device, with random
/// weights. The modules get their former parameters back in the end.
class BoundUnits {
 public:
  /// Backward runs with `deterministic` kernels, or with the fastest.
  BoundUnits(const Model& model, UnitMeter& meter, bool deterministic)
      : model_(model), meter_(meter), deterministic_(deterministic) {}
  ~BoundUnits();
  BoundUnits(const BoundUnits&) = delete;
  BoundUnits& operator=(const BoundUnits&) = delete;

  /// Makes `unit` ready to run, and unbinds units that it does not need.
  UnitRunner& use(int unit);
  /// Zeroes the gradients that backward of `unit` is the first to add to. In backward, a borrower
  /// comes before the owner.
  void clear_gradients(int unit);

 private:
  struct Bound {
    torch::Tensor parameters, gradients;  ///< flat
    std::vector<torch::Tensor> former;
    UnitRunner runner;
  };
  void bind(int unit);
  void unbind(int unit);
  [[nodiscard]] std::vector<int> needed_by(int unit) const;
  [[nodiscard]] int last_user(int unit) const;

  const Model& model_;
  UnitMeter& meter_;
  bool deterministic_;
  std::map<int, Bound> bound_;
};

}  // namespace athanor
