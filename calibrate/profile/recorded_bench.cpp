// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/recorded_bench.hpp"

#include "calibrate/bench/measure.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace athanor {

namespace {

constexpr std::size_t kCopies = 8;

/// Whether the launched phases were measured at the clocks of a throttled device.
bool was_throttled(const UnitCost& cost) {
  const PhaseCost& phase = cost.backward;
  return phase.unthrottled_seconds > 0 &&
         phase.seconds > phase.unthrottled_seconds * (1 + kSameSpeed);
}

}  // namespace

RecordedBench::RecordedBench(const Model& model, BoundUnits& bound, int unit, torch::Tensor input,
                             const Batch& batch, UnitMeter& meter)
    : unit_(unit),
      is_last_(unit + 1 == static_cast<int>(model.units.size())),
      bound_(bound),
      runner_(bound.use(unit)),
      input_(std::move(input)),
      batch_(batch),
      meter_(meter),
      recorder_(meter.make_recorder()) {}

void RecordedBench::run(const StoppingRule& rule, UnitCost& cost, KeptGraphs& kept) {
  if (recorder_ == nullptr) return;
  meter_.run([&] {
    recorder_->run([&] { warm_up(); });
    for (std::size_t i = 0; i < kCopies; ++i) record_cycle();
  });
  cycles_for(meter_.warm_up() + (was_throttled(cost) ? meter_.settling() : 0));
  for (Phase& phase : phases_) phase.samples = {};
  while (!satisfied(rule)) one_cycle();
  meter_.finish();
  cost.forward_keep = cost_of(kKeep, cost.forward_keep);
  cost.forward_discard = cost_of(kDiscard, cost.forward_discard);
  cost.recompute = cost_of(kRecompute, cost.recompute);
  cost.backward = cost_of(kBackward, cost.backward);
  for (Phase& phase : phases_) std::ranges::move(phase.copies, std::back_inserter(kept));
}

/// Runs a cycle at once, and makes the gradient that backward starts from. It stays, so that what
/// is issued later works on values as they are in training.
void RecordedBench::warm_up() {
  forward(/*keep=*/true);
  if (!is_last_) output_gradient_ = torch::randn_like(activation_or_gradient_);
  backward();
  forward(/*keep=*/false);
  static_cast<void>(runner_.forward(activations_, batch_, /*keep=*/true));
  backward();
}

void RecordedBench::record_cycle() {
  const auto record = [&](PhaseIndex index, const std::function<void()>& work) {
    auto& copies = phases_[index].copies;
    copies.push_back(recorder_->record(work));
    copies.back()->issue();
  };
  record(kKeep, [&] { forward(/*keep=*/true); });
  record(kBackward, [&] { backward(); });
  record(kDiscard, [&] { forward(/*keep=*/false); });
  record(kRecompute,
         [&] { static_cast<void>(runner_.forward(activations_, batch_, /*keep=*/true)); });
  record(kBackwardAgain, [&] { backward(); });
}

void RecordedBench::forward(bool keep) {
  activations_ = {};
  if (input_.defined()) activations_.input = input_.detach().requires_grad_();
  activation_or_gradient_ = runner_.forward(activations_, batch_, keep);
  if (is_last_) activation_or_gradient_.reset();  // the loss: read elsewhere
}

void RecordedBench::backward() {
  bound_.clear_gradients(unit_);
  activation_or_gradient_ =
      is_last_ ? torch::full({}, 1.0, torch::dtype(torch::kFloat32).device(meter_.device()))
               : output_gradient_;
  activation_or_gradient_ =
      runner_.backward(activations_, std::exchange(activation_or_gradient_, {}));
  activations_ = {};
  activation_or_gradient_.reset();
}

void RecordedBench::one_cycle() {
  for (Phase& phase : phases_) {
    meter_.time(phase.samples, [&] { phase.copies[copy_]->issue(); });
  }
  copy_ = (copy_ + 1) % kCopies;
  meter_.collect();
}

void RecordedBench::cycles_for(Seconds seconds) {
  for (Seconds spent = 0; spent < seconds;) spent += time_once([this] { one_cycle(); });
  meter_.finish();
}

bool RecordedBench::satisfied(const StoppingRule& rule) const {
  return std::ranges::all_of(
      phases_, [&](const Phase& phase) { return rule.satisfied_by(phase.samples.device); });
}

PhaseCost RecordedBench::cost_of(PhaseIndex index, const PhaseCost& launched) const {
  const Phase& phase = phases_[index];
  const PhaseCost recorded = meter_.cost_of(phase.samples);
  PhaseCost cost = launched;
  cost.replay = ReplayCost{recorded.seconds, recorded.issue_seconds};
  return cost;
}

}  // namespace athanor
