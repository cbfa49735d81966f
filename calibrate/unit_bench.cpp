// SPDX-License-Identifier: Apache-2.0
#include "calibrate/unit_bench.hpp"

#include "calibrate/measure.hpp"
#include "executor/units/unit_runner.hpp"

#include <algorithm>
#include <utility>

namespace athanor {

PhaseCost UnitBench::Phase::cost() const {
  return {samples.median(), samples.interquartile_range(), peak};
}

UnitBench::UnitBench(const Model& model, BoundUnits& bound, int unit, torch::Tensor input,
                     const Batch& batch)
    : is_last_(unit + 1 == static_cast<int>(model.units.size())),
      unit_(unit),
      bound_(bound),
      runner_(bound.use(unit)),
      input_(std::move(input)),
      batch_(batch) {}

UnitBenchResult UnitBench::run(const StoppingRule& rule) {
  // Caches, thread pools and the arena's kept blocks are as in the middle of training afterwards.
  one_cycle();
  for (Phase* phase : {&forward_keep_, &forward_discard_, &recompute_, &backward_}) {
    phase->samples = {};
  }
  while (!satisfied(rule)) {
    one_cycle();
  }
  UnitBenchResult result;
  result.cost.forward_keep = forward_keep_.cost();
  result.cost.forward_discard = forward_discard_.cost();
  result.cost.recompute = recompute_.cost();
  result.cost.backward = backward_.cost();
  result.cost.output_bytes = output_bytes_;
  result.cost.saved_bytes = saved_bytes_;
  result.cost.grad_input_bytes = grad_input_bytes_;
  result.output = std::move(output_);
  return result;
}

bool UnitBench::satisfied(const StoppingRule& rule) const {
  return rule.satisfied_by(forward_keep_.samples) && rule.satisfied_by(forward_discard_.samples) &&
         rule.satisfied_by(recompute_.samples) && rule.satisfied_by(backward_.samples);
}

/// A unit whose activations are kept, then one that is recomputed.
void UnitBench::one_cycle() {
  begin_forward();
  Bytes before = arena_.live();
  forward(forward_keep_, /*keep=*/true);
  saved_bytes_ = arena_.live() - before;
  make_output_gradient();
  backward();
  grad_input_bytes_ = arena_.live() - before;
  flow_.reset();

  begin_forward();
  before = arena_.live();
  forward(forward_discard_, /*keep=*/false);
  output_bytes_ = arena_.live() - before;
  make_output_gradient();
  recompute();
  backward();
  flow_.reset();
}

void UnitBench::time_phase(Phase& phase, const std::function<void()>& body) {
  const ArenaScope scope(arena_);
  const Bytes before = arena_.live();
  arena_.reset_peak();
  phase.samples.add(time_once(body));
  phase.peak = arena_.peak() - before;
}

/// The leaf shares the storage of the activation that the caller holds.
void UnitBench::begin_forward() {
  activations_ = {};
  if (input_.defined()) {
    activations_.input = input_.detach().requires_grad_();
  }
}

void UnitBench::forward(Phase& phase, bool keep) {
  time_phase(phase, [&] {
    flow_ = runner_.forward(activations_, batch_, keep);
    if (is_last_) {
      static_cast<void>(std::exchange(flow_, {}).item<double>());
    }
  });
  if (flow_.defined() && !output_.defined()) {
    output_ = flow_.clone();
  }
}

/// The unit after this one leaves a gradient in place of the output; the loss has none.
void UnitBench::make_output_gradient() {
  flow_.reset();
  if (!is_last_) {
    const ArenaScope scope(arena_);
    flow_ = torch::randn_like(output_);
  }
}

void UnitBench::recompute() {
  time_phase(recompute_,
             [&] { static_cast<void>(runner_.forward(activations_, batch_, /*keep=*/true)); });
}

void UnitBench::backward() {
  time_phase(backward_, [&] {
    bound_.clear_gradients(unit_);
    if (is_last_) {
      flow_ = torch::full({}, 1.0, torch::kFloat32);
    }
    flow_ = runner_.backward(activations_, std::exchange(flow_, {}));
    activations_ = {};
  });
}

}  // namespace athanor
