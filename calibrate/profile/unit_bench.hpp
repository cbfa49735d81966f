// SPDX-License-Identifier: Apache-2.0
// Times one unit's phases and counts their device memory. Phases run, and their results are freed,
// in the order of training.
#pragma once

#include "calibrate/bench/measure.hpp"
#include "calibrate/bench/samples.hpp"
#include "calibrate/profile/bound_units.hpp"
#include "calibrate/profile/operator_trace.hpp"
#include "calibrate/profile/unit_meter.hpp"
#include "calibrate/profile/unit_pass.hpp"
#include "executor/units/model.hpp"
#include "sim/model/profile.hpp"

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace athanor {

/// Results of one unit at one micro-batch size.
struct UnitBenchResult {
  UnitCost cost;         ///< without class and micro-batch
  torch::Tensor output;  ///< not counted; undefined for the unit with the loss
};

class UnitBench {
 public:
  /// `input` is the activation that the unit before gives; undefined for the first unit. `input`
  /// and `batch` are on the meter's device.
  UnitBench(const Model& model, BoundUnits& bound, int unit, torch::Tensor input,
            const Batch& batch, UnitMeter& meter);

  /// Measures under sustained load. `unthrottled` has the times of run_paused(), if there are any.
  /// A device that they show to be throttled settles first.
  [[nodiscard]] UnitBenchResult run(const StoppingRule& rule, const UnitCost& unthrottled);

  /// Measures unthrottled times, and the power of all phases together: after each phase the device
  /// pauses for as long as it ran, at `idle_watts`. Returns neither if a phase is so long that a
  /// power limit may act within it. The meter has to count energy.
  [[nodiscard]] UnitBenchResult run_paused(double idle_watts);

  /// Measures under a trace, with the kernels of each phase. `repetitions` are traced after the
  /// warm-up, into `trace`. Tracing makes times longer.
  [[nodiscard]] UnitBenchResult run_traced(KernelTracer& tracer, int repetitions,
                                           KernelTrace& trace);

 private:
  /// Trace that is being recorded, and the repetition that labels its phases.
  struct Traced {
    OperatorTrace& trace;
    int repetition = 0;
  };

  void cycle_for(Seconds seconds);
  void clear_samples();
  void one_cycle();
  void forward(PhaseSamples& phase, bool keep);
  void recompute();
  void backward();
  void make_output_gradient();
  void time(UnitPhase phase, PhaseSamples& samples, const std::function<void()>& body);
  [[nodiscard]] UnitBenchResult result();
  [[nodiscard]] bool is_throttled(const UnitCost& unthrottled) const;
  [[nodiscard]] bool satisfied(const StoppingRule& rule) const;
  /// Whether the least that `rule` asks for has taken so long since `start` that it has to do. The
  /// rule counts the device's time, and a unit that waits for the device takes the host's.
  [[nodiscard]] bool is_overdue(const StoppingRule& rule, Moment start) const;

  std::string unit_class_;
  std::int64_t micro_batch_;
  UnitMeter& meter_;
  UnitPass pass_;
  torch::Tensor output_;
  std::optional<Traced> traced_;  ///< absent: nothing is traced
  bool pauses_ = false;           ///< after each phase
  PhaseSamples forward_keep_, forward_discard_, recompute_, backward_;
  Bytes output_bytes_ = 0, saved_bytes_ = 0, grad_input_bytes_ = 0;
};

}  // namespace athanor
