// SPDX-License-Identifier: Apache-2.0
// Times one unit's phases as CUDA graphs.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "calibrate/profile/bound_units.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "calibrate/profile/unit_pass.hpp"
#include "executor/recording/work_recorder.hpp"
#include "executor/units/model.hpp"
#include "sim/model/profile.hpp"

#include <torch/types.h>

#include <array>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

namespace athanor {

/// Graphs of all units that were measured. The driver takes memory for them in pieces of megabytes
/// and keeps what it has taken, so that their mean alone says something, while all of them are
/// kept.
using KeptGraphs = std::vector<std::unique_ptr<RecordedWork>>;

class RecordedBench {
 public:
  /// As UnitBench's.
  RecordedBench(const Model& model, BoundUnits& bound, int unit, torch::Tensor input,
                const Batch& batch, UnitMeter& meter);

  /// Adds to `cost`, which has the times of launched phases, what they take as CUDA graphs, without
  /// memory. Adds nothing if the device records none. The graphs end in `kept`; nobody may issue
  /// them again. Throws Error, or c10::Error, where the unit does what a graph cannot hold.
  void run(const StoppingRule& rule, UnitCost& cost, KeptGraphs& kept);

 private:
  /// One phase that was recorded several times.
  struct Phase {
    std::vector<std::unique_ptr<RecordedWork>> copies;
    PhaseSamples samples;
  };
  /// Phases of one cycle in their order.
  enum PhaseIndex : std::size_t { kKeep, kBackward, kDiscard, kRecompute, kBackwardAgain, kCount };

  void warm_up();
  void record_cycle();
  void forward(bool keep);
  void backward();
  void one_cycle();
  void cycles_for(Seconds seconds);
  [[nodiscard]] bool satisfied(const StoppingRule& rule) const;
  [[nodiscard]] ReplayCost replay_of(PhaseIndex index) const;

  UnitMeter& meter_;
  std::unique_ptr<WorkRecorder> recorder_;
  UnitPass pass_;
  torch::Tensor output_gradient_;
  std::array<Phase, kCount> phases_;
  std::size_t copy_ = 0;  ///< issued next
};

}  // namespace athanor
