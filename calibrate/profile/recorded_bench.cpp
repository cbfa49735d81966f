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
    : meter_(meter),
      recorder_(meter.make_recorder()),
      pass_(model, bound, unit, std::move(input), batch, meter.device()) {}

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
  cost.forward_keep.replay = replay_of(kKeep);
  cost.forward_discard.replay = replay_of(kDiscard);
  cost.recompute.replay = replay_of(kRecompute);
  cost.backward.replay = replay_of(kBackward);
  for (Phase& phase : phases_) std::ranges::move(phase.copies, std::back_inserter(kept));
}

/// Runs a cycle at once, and makes the gradient that backward starts from. It stays, so that what
/// is issued later works on values as they are in training.
void RecordedBench::warm_up() {
  forward(/*keep=*/true);
  if (!pass_.is_last()) output_gradient_ = torch::randn_like(pass_.activation_or_gradient);
  backward();
  forward(/*keep=*/false);
  pass_.recompute();
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
  record(kRecompute, [&] { pass_.recompute(); });
  record(kBackwardAgain, [&] { backward(); });
}

void RecordedBench::forward(bool keep) {
  pass_.begin();
  pass_.forward(keep);
}

void RecordedBench::backward() {
  pass_.activation_or_gradient = output_gradient_;
  pass_.backward();
  pass_.clear();
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

ReplayCost RecordedBench::replay_of(PhaseIndex index) const {
  const PhaseCost recorded = meter_.cost_of(phases_[index].samples);
  return {recorded.seconds, recorded.issue_seconds};
}

}  // namespace athanor
