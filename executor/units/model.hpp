// SPDX-License-Identifier: Apache-2.0
// A model as athanor runs it: LibTorch modules, one per unit, built-in or a user's own.
#pragma once

#include "executor/layers/packing.hpp"
#include "executor/travel/token_slots.hpp"
#include "sim/model/architecture.hpp"

#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace athanor {

class UnitPattern;

/// The data of one micro-batch. For token data, inputs and targets are int64 [batch, sequence].
struct Batch {
  torch::Tensor inputs;
  torch::Tensor targets;
  /// Nothing: every sequence is one document, and all targets are learnt.
  std::optional<Packing> packing = std::nullopt;
};

/// One unit as a module. The first unit gets an undefined activation and reads batch.inputs; the
/// last returns the mean loss of the micro-batch (a scalar). Parameters are registered as in any
/// torch::nn::Module.
class UnitModule : public torch::nn::Module {
 public:
  virtual torch::Tensor forward(torch::Tensor activation, const Batch& batch) = 0;
  /// Parameters of other units that forward reads (tied weights): (owner's unit index, tensor).
  [[nodiscard]] virtual std::vector<std::pair<int, torch::Tensor>> borrowed() const { return {}; }
  /// Values that training starts from, one per registered parameter. An empty list stands for the
  /// family's rule (initial_weights.hpp).
  [[nodiscard]] virtual std::vector<torch::Tensor> initial_values() const { return {}; }
};

/// Results of a unit's first stage, after which its tokens depart.
struct Departure {
  torch::Tensor rows;  ///< [slots, hidden]: what travels; has a gradient
  TokenSlots slots;    ///< its `ends` travel too; undefined tensors where tensors are split
  /// Inputs of the last stage beside the rows that come back. All have gradients.
  std::vector<torch::Tensor> home;
};

/// A unit of one rank whose activations travel. In place of forward() it has three stages. Between
/// them rows go to the ranks of their experts, and back; or, where tensors are split, to all ranks,
/// and the sum of what these made of them back.
class TravellingUnit {
 public:
  TravellingUnit() = default;
  virtual ~TravellingUnit() = default;
  TravellingUnit(const TravellingUnit&) = delete;
  TravellingUnit& operator=(const TravellingUnit&) = delete;

  /// Returns how many ranks' rows arrive for each row that departs.
  [[nodiscard]] virtual std::int64_t rows_of_ranks() const { return 1; }
  [[nodiscard]] virtual Departure depart(const torch::Tensor& activation, const Batch& batch) = 0;
  /// Runs this rank's part, such as its experts, on the rows that arrived, with the ends that came
  /// with them.
  [[nodiscard]] virtual torch::Tensor run_part(const torch::Tensor& rows,
                                               const torch::Tensor& ends) = 0;
  /// Returns the unit's output. `home` are those of the departure; `rows` came back.
  [[nodiscard]] virtual torch::Tensor arrive(const std::vector<torch::Tensor>& home,
                                             const TokenSlots& slots, const torch::Tensor& rows,
                                             const Batch& batch) = 0;
};

/// One rank's share of a unit under a pattern.
struct UnitShare {
  const UnitPattern* pattern = nullptr;
  int rank = 0, ranks = 1;
  std::int64_t capacity = 0;  ///< UnitPlan::capacity
};

/// A list of units in execution order, with the architecture that lowering needs.
/// `architecture.units[i].parameters` describes the registered parameters of `units[i]`, in the
/// same order and with the same shapes.
struct Model {
  Architecture architecture;
  std::vector<std::shared_ptr<UnitModule>> units;
  DataType dtype = DataType::Float32;
  /// Makes a batch of `num_samples` random samples, for profiling.
  std::function<Batch(std::int64_t num_samples)> random_batch;
  /// Makes what a rank runs of a unit whose activations travel, a TravellingUnit: `part` is what it
  /// holds of architecture.units[unit]. Null where the model has no such unit under that pattern,
  /// and empty for a model whose activations cannot travel.
  std::function<std::shared_ptr<UnitModule>(int unit, const Unit& part, const UnitShare& share)>
      part_unit = nullptr;
};

}  // namespace athanor
