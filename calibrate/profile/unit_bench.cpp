// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/unit_bench.hpp"

#include "calibrate/bench/measure.hpp"
#include "calibrate/kernels/kernel_costs.hpp"
#include "calibrate/power/energy_watch.hpp"

#include <algorithm>
#include <utility>

namespace athanor {
UnitBench::UnitBench(const Model& model, BoundUnits& bound, int unit, torch::Tensor input,
                     const Batch& batch, UnitMeter& meter)
    : unit_class_(model.architecture.units[static_cast<std::size_t>(unit)].unit_class),
      micro_batch_(batch.inputs.size(0)),
      meter_(meter),
      pass_(model, bound, unit, std::move(input), batch, meter.device()) {}

UnitBenchResult UnitBench::run(const StoppingRule& rule, const UnitCost& unthrottled) {
  cycle_for(meter_.warm_up());
  if (is_throttled(unthrottled)) cycle_for(meter_.settling());
  clear_samples();
  const Moment start = Moment::clock::now();
  while (!satisfied(rule) && !is_overdue(rule, start)) {
    one_cycle();
    meter_.collect();
  }
  meter_.finish();
  return result();
}

UnitBenchResult UnitBench::run_paused(double idle_watts) {
  constexpr Seconds kMeasured = 0.8;
  constexpr Seconds kLongest = 0.03;
  const EnergyWatch energy([this] { return meter_.joules(); });
  cycle_for(0);
  clear_samples();
  pauses_ = true;
  energy.until_change([this] { one_cycle(); });
  if (backward_.device.median() > kLongest || forward_keep_.device.median() > kLongest) {
    pauses_ = false;
    return {};
  }
  clear_samples();
  const Moment from = Moment::clock::now();
  for (Seconds spent = 0; spent < kMeasured;) spent += time_once([this] { one_cycle(); });
  const Moment to = Moment::clock::now();
  UnitBenchResult paused = result();
  Seconds running = 0;
  for (const PhaseSamples* phase : {&forward_keep_, &forward_discard_, &recompute_, &backward_}) {
    running += phase->device.total();
  }
  energy.until_change([this] { one_cycle(); });
  pauses_ = false;
  if (running <= 0) return paused;
  const Seconds paused_for = seconds_between(from, to) - running;
  const double watts = (energy.joules(from, to) - idle_watts * paused_for) / running;
  for (const auto phase : kUnitPhases) {
    PhaseCost& cost = paused.cost.*phase;
    cost.unthrottled_seconds = cost.seconds;
    cost.watts = std::max(watts, idle_watts);
  }
  return paused;
}

UnitBenchResult UnitBench::run_traced(KernelTracer& tracer, int repetitions, KernelTrace& trace) {
  OperatorTrace operators(tracer);
  cycle_for(meter_.warm_up());
  clear_samples();
  traced_.emplace(operators);
  for (; traced_->repetition < repetitions; ++traced_->repetition) {
    one_cycle();
    meter_.collect();
  }
  meter_.finish();
  traced_.reset();
  trace = operators.finish();
  UnitBenchResult traced = result();
  traced.cost.forward_keep.kernels = kernel_costs(trace, UnitPhase::ForwardKeep);
  traced.cost.forward_discard.kernels = kernel_costs(trace, UnitPhase::ForwardDiscard);
  traced.cost.recompute.kernels = kernel_costs(trace, UnitPhase::Recompute);
  traced.cost.backward.kernels = kernel_costs(trace, UnitPhase::Backward);
  return traced;
}

UnitBenchResult UnitBench::result() {
  UnitBenchResult result;
  result.cost.forward_keep = meter_.cost_of(forward_keep_);
  result.cost.forward_discard = meter_.cost_of(forward_discard_);
  result.cost.recompute = meter_.cost_of(recompute_);
  result.cost.backward = meter_.cost_of(backward_);
  result.cost.output_bytes = output_bytes_;
  result.cost.saved_bytes = saved_bytes_;
  result.cost.grad_input_bytes = grad_input_bytes_;
  result.output = std::move(output_);
  return result;
}

/// Runs cycles for `seconds`, at least one. After the meter's warm-up, caches, thread pools, clocks
/// and the allocator's kept blocks are as in the middle of training.
void UnitBench::cycle_for(Seconds seconds) {
  Seconds spent = 0;
  do {
    spent += time_once([this] {
      one_cycle();
      meter_.collect();
    });
  } while (spent < seconds);
  meter_.finish();
}

void UnitBench::clear_samples() {
  for (PhaseSamples* phase : {&forward_keep_, &forward_discard_, &recompute_, &backward_}) {
    *phase = {};
  }
}

bool UnitBench::is_throttled(const UnitCost& unthrottled) const {
  const auto is_slower = [&](const PhaseSamples& measured, const PhaseCost& when_unthrottled) {
    return measured.device.median() > when_unthrottled.unthrottled_seconds * (1 + kSameSpeed);
  };
  return is_slower(forward_keep_, unthrottled.forward_keep) ||
         is_slower(backward_, unthrottled.backward);
}

bool UnitBench::satisfied(const StoppingRule& rule) const {
  return rule.satisfied_by(forward_keep_.device) && rule.satisfied_by(forward_discard_.device) &&
         rule.satisfied_by(recompute_.device) && rule.satisfied_by(backward_.device);
}

bool UnitBench::is_overdue(const StoppingRule& rule, Moment start) const {
  constexpr double kPhases = 4, kLeeway = 5;
  return backward_.device.count() >= rule.min_repetitions &&
         seconds_between(start, Moment::clock::now()) > kPhases * kLeeway * rule.max_seconds;
}

/// Runs the unit with its activations kept, then with recomputation.
void UnitBench::one_cycle() {
  pass_.begin();
  Bytes before = meter_.live();
  forward(forward_keep_, /*keep=*/true);
  saved_bytes_ = meter_.live() - before;
  make_output_gradient();
  backward();
  grad_input_bytes_ = meter_.live() - before;
  pass_.activation_or_gradient.reset();

  pass_.begin();
  before = meter_.live();
  forward(forward_discard_, /*keep=*/false);
  output_bytes_ = meter_.live() - before;
  make_output_gradient();
  recompute();
  backward();
  pass_.activation_or_gradient.reset();
}

void UnitBench::forward(PhaseSamples& phase, bool keep) {
  time(keep ? UnitPhase::ForwardKeep : UnitPhase::ForwardDiscard, phase,
       [&] { pass_.forward(keep); });
  if (pass_.activation_or_gradient.defined() && !output_.defined()) {
    meter_.run([&] { output_ = pass_.activation_or_gradient.clone(); });
  }
}

/// Puts a gradient in place of the output, as the unit after this one does; the loss has none.
void UnitBench::make_output_gradient() {
  pass_.activation_or_gradient.reset();
  if (!pass_.is_last()) {
    meter_.run([&] { pass_.activation_or_gradient = torch::randn_like(output_); });
  }
}

void UnitBench::time(UnitPhase phase, PhaseSamples& samples, const std::function<void()>& body) {
  if (pauses_) {
    const Seconds before = samples.device.total();
    meter_.time(samples, body);
    meter_.finish();
    const Seconds pause = samples.device.total() - before;
    sleep_for(pause);
    return;
  }
  if (!traced_) return meter_.time(samples, body);
  meter_.time(samples, [&] {
    traced_->trace.begin({unit_class_, micro_batch_, phase, traced_->repetition});
    body();
    traced_->trace.end();
  });
}

void UnitBench::recompute() {
  time(UnitPhase::Recompute, recompute_, [&] { pass_.recompute(); });
}

void UnitBench::backward() {
  time(UnitPhase::Backward, backward_, [&] { pass_.backward(); });
}

}  // namespace athanor
