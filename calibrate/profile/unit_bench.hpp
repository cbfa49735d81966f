// SPDX-License-Identifier: Apache-2.0
// Times one unit's phases and counts their device memory, in the order in which training runs them
// and frees what they leave.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "calibrate/profile/bound_units.hpp"
#include "calibrate/profile/operator_trace.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "executor/units/model.hpp"
#include "sim/model/profile.hpp"

#include <torch/torch.h>

#include <functional>
#include <optional>
#include <string>

namespace athanor {

/// Results of one unit at one micro-batch size.
struct UnitBenchResult {
  UnitCost cost;         ///< without class and micro-batch
  torch::Tensor output;  ///< uncounted; undefined for the unit with the loss
};

class UnitBench {
 public:
  /// `input` is the activation that the unit before gives; undefined for the first unit. `input`
  /// and `batch` are on the meter's device.
  UnitBench(const Model& model, BoundUnits& bound, int unit, torch::Tensor input,
            const Batch& batch, UnitMeter& meter);

  /// Under sustained load. `full_clock`: times of run_paused(), where there are any.
  [[nodiscard]] UnitBenchResult run(const StoppingRule& rule, const UnitCost& full_clock);

  /// Times at full clock, and the power of all phases together: after each the device pauses for as
  /// long as it ran. `idle_watts`: meanwhile. Without them where a phase is longer than a power
  /// limit lets it run at full clock. The meter counts energy.
  [[nodiscard]] UnitBenchResult run_paused(double idle_watts);

  /// The same with the kernels of each phase: `repetitions` are traced after the warm-up. Tracing
  /// makes times longer; `trace` gets what was traced.
  [[nodiscard]] UnitBenchResult run_traced(KernelTracer& tracer, int repetitions,
                                           KernelTrace& trace);

 private:
  /// What is being traced, for labels.
  struct Traced {
    OperatorTrace& trace;
    int repetition = 0;
  };

  void cycle_for(Seconds seconds);
  void start_again();
  void one_cycle();
  void begin_forward();
  void forward(PhaseSamples& phase, bool keep);
  void recompute();
  void backward();
  void make_output_gradient();
  void time(UnitPhase phase, PhaseSamples& samples, const std::function<void()>& body);
  [[nodiscard]] UnitBenchResult result();
  [[nodiscard]] PhaseCost cost_of(const PhaseSamples& phase) const;
  [[nodiscard]] bool is_throttled(const UnitCost& full_clock) const;
  [[nodiscard]] bool satisfied(const StoppingRule& rule) const;

  std::string unit_class_;
  bool is_last_;
  int unit_;
  BoundUnits& bound_;
  UnitRunner& runner_;
  torch::Tensor input_;
  const Batch& batch_;
  UnitMeter& meter_;
  UnitActivations activations_;
  torch::Tensor flow_;  ///< as in the executor: the output; in backward, the gradient
  torch::Tensor output_;
  std::optional<Traced> traced_;  ///< absent: nothing is traced
  bool pauses_ = false;           ///< after each phase
  PhaseSamples forward_keep_, forward_discard_, recompute_, backward_;
  Bytes output_bytes_ = 0, saved_bytes_ = 0, grad_input_bytes_ = 0;
};

}  // namespace athanor
