// SPDX-License-Identifier: Apache-2.0
// Times the stages of a unit whose activations travel, and counts their memory, on one device that
// stands for one of several ranks. Nothing leaves it: every other rank is taken to send what this
// one sends to itself, so experts are as busy as on average.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "executor/units/model.hpp"
#include "executor/units/unit_runner.hpp"
#include "sim/model/profile.hpp"

#include <torch/types.h>

#include <array>
#include <cstddef>
#include <memory>

namespace athanor {

/// A pattern with stages, and what its costs depend on.
struct StagedSetting {
  const UnitPattern* pattern = nullptr;
  int world_size = 1;
  std::int64_t capacity = 0;  ///< UnitPlan::capacity
};

class StagedBench {
 public:
  /// `unit` of `model` can have the setting's pattern. `input` is the activation that the unit
  /// before gives. Both it and `batch` are on the meter's device.
  StagedBench(const Model& model, int unit, const StagedSetting& setting, torch::Tensor input,
              const Batch& batch, UnitMeter& meter, bool deterministic);

  [[nodiscard]] StagedCost run(const StoppingRule& rule);

 private:
  static constexpr int kStages = 3;
  struct PhaseOfStages {
    std::array<PhaseSamples, kStages> stages;
    std::array<Bytes, kStages - 1> held{};
  };

  void cycle();
  void begin_forward();
  void forward(PhaseOfStages& phase, bool keep, Bytes before);
  void backward(Bytes before);
  void make_output_gradient();
  void travel(int stage, bool backward);
  [[nodiscard]] bool satisfied(const StoppingRule& rule) const;
  [[nodiscard]] StagedPhase cost_of(const PhaseOfStages& phase) const;

  UnitMeter& meter_;
  const Batch& batch_;
  StagedSetting setting_;
  torch::Tensor input_, output_, parameters_, gradients_;
  std::unique_ptr<UnitRunner> runner_;
  UnitActivations activations_;
  torch::Tensor activation_or_gradient_;
  PhaseOfStages forward_keep_, forward_discard_, recompute_, backward_;
  Bytes output_bytes_ = 0, saved_bytes_ = 0, grad_input_bytes_ = 0;
};

/// Returns the capacity that a profile measures: room for `times` as many rows as balanced routing
/// sends, and no more than any routing can.
[[nodiscard]] std::int64_t profiled_capacity(const Architecture& architecture, const Unit& unit,
                                             std::int64_t tokens, int world_size, double times);

/// Returns the costs of `unit` under a pattern. Backward runs with `deterministic` kernels, or with
/// the fastest.
[[nodiscard]] StagedCost staged_cost(const Model& model, int unit, const StagedSetting& setting,
                                     const torch::Tensor& input, const Batch& batch,
                                     UnitMeter& meter, bool deterministic,
                                     const StoppingRule& rule);

}  // namespace athanor
