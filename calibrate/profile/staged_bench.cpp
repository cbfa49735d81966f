// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/staged_bench.hpp"

#include "calibrate/profile/bound_units.hpp"
#include "executor/units/torch_types.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/patterns/tokens_travel.hpp"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace athanor {

StagedBench::StagedBench(const Model& model, int unit, const StagedSetting& setting,
                         torch::Tensor input, const Batch& batch, UnitMeter& meter,
                         bool deterministic)
    : meter_(meter), batch_(batch), setting_(setting), input_(std::move(input)) {
  const Unit& whole = model.architecture.units.at(static_cast<std::size_t>(unit));
  const Unit part = part_of_rank(whole, *setting.pattern, /*rank=*/0, setting.world_size);
  const auto module =
      model.part_unit(unit, part, {setting.pattern, 0, setting.world_size, setting.capacity});
  std::int64_t elements = 0;
  static_cast<void>(parameter_offsets(part, elements));
  meter_.run([&] {
    const auto options = torch::dtype(torch_dtype(model.dtype)).device(meter_.device());
    parameters_ = torch::zeros({elements}, options);
    gradients_ = torch::zeros({elements}, options);
    fill_with_weights(part, parameters_);
  });
  runner_ = std::make_unique<UnitRunner>(module, part, elements, model.dtype, meter_.device());
  runner_->set_deterministic(deterministic);
  runner_->bind_parameters(parameters_.mutable_data_ptr());
  runner_->bind_gradients(gradients_.mutable_data_ptr());
}

StagedCost StagedBench::run(const StoppingRule& rule) {
  cycle();
  meter_.finish();
  for (PhaseOfStages* phase : {&forward_keep_, &forward_discard_, &recompute_, &backward_}) {
    *phase = {};
  }
  do {
    cycle();
    meter_.collect();
  } while (!satisfied(rule));
  meter_.finish();
  StagedCost cost;
  cost.pattern = setting_.pattern->name();
  cost.world_size = setting_.world_size;
  cost.capacity = setting_.capacity;
  cost.forward_keep = cost_of(forward_keep_);
  cost.forward_discard = cost_of(forward_discard_);
  cost.recompute = cost_of(recompute_);
  cost.backward = cost_of(backward_);
  cost.output_bytes = output_bytes_;
  cost.saved_bytes = saved_bytes_;
  cost.grad_input_bytes = grad_input_bytes_;
  return cost;
}

bool StagedBench::satisfied(const StoppingRule& rule) const {
  return std::ranges::all_of(std::array{&forward_keep_, &forward_discard_, &recompute_, &backward_},
                             [&](const PhaseOfStages* phase) {
                               return std::ranges::all_of(phase->stages,
                                                          [&](const PhaseSamples& stage) {
                                                            return rule.satisfied_by(stage.device);
                                                          });
                             });
}

StagedPhase StagedBench::cost_of(const PhaseOfStages& phase) const {
  StagedPhase cost;
  for (const PhaseSamples& stage : phase.stages) {
    cost.stages.push_back(meter_.cost_of(stage));
  }
  cost.held.assign(phase.held.begin(), phase.held.end());
  return cost;
}

/// Runs the unit with its activations kept, then with recomputation, as UnitBench does.
void StagedBench::cycle() {
  begin_forward();
  Bytes before = meter_.live();
  forward(forward_keep_, /*keep=*/true, before);
  saved_bytes_ = meter_.live() - before;
  make_output_gradient();
  backward(before);
  grad_input_bytes_ = meter_.live() - before;
  activation_or_gradient_.reset();

  begin_forward();
  before = meter_.live();
  forward(forward_discard_, /*keep=*/false, before);
  output_bytes_ = meter_.live() - before;
  activation_or_gradient_.reset();
  before = meter_.live();
  forward(recompute_, /*keep=*/true, before);
  activations_ = {};
  activation_or_gradient_.reset();
}

void StagedBench::begin_forward() {
  activations_ = {};
  activations_.input = input_.detach().requires_grad_();
}

void StagedBench::forward(PhaseOfStages& phase, bool keep, Bytes before) {
  for (int stage = 0; stage < kStages; ++stage) {
    meter_.time(phase.stages[static_cast<std::size_t>(stage)], [&] {
      activation_or_gradient_ = runner_->forward_stage(stage, activations_, batch_, keep);
    });
    if (stage + 1 == kStages) break;
    phase.held[static_cast<std::size_t>(stage)] = meter_.live() - before;
    travel(stage, /*backward=*/false);
  }
  if (!output_.defined()) meter_.run([&] { output_ = activation_or_gradient_.clone(); });
}

void StagedBench::make_output_gradient() {
  activation_or_gradient_.reset();
  meter_.run([&] { activation_or_gradient_ = torch::randn_like(output_); });
}

void StagedBench::backward(Bytes before) {
  for (int stage = 0; stage < kStages; ++stage) {
    meter_.time(backward_.stages[static_cast<std::size_t>(stage)], [&] {
      if (stage == 0) gradients_.zero_();
      activation_or_gradient_ =
          runner_->backward_stage(stage, activations_, std::exchange(activation_or_gradient_, {}));
      if (stage + 1 == kStages) activations_ = {};
    });
    if (stage + 1 == kStages) break;
    backward_.held[static_cast<std::size_t>(stage)] = meter_.live() - before;
    travel(stage, /*backward=*/true);
  }
}

/// Copies what this rank sends itself to the place of what every rank sends it. Where tensors are
/// split, that is all of its rows when they are gathered, and those of one rank when they are
/// summed.
void StagedBench::travel(int stage, bool backward) {
  meter_.run([&] {
    const torch::NoGradGuard no_gradient;
    for (const Travel& travel : UnitRunner::travels(stage, backward, activations_)) {
      const std::int64_t part =
          std::max(travel.from.size(0), travel.to.size(0)) / setting_.world_size;
      for (std::int64_t place = 0; place < travel.to.size(0); place += part) {
        travel.to.detach().narrow(0, place, part).copy_(travel.from.detach().narrow(0, 0, part));
      }
    }
  });
}

std::int64_t profiled_capacity(const Architecture& architecture, const Unit& unit,
                               std::int64_t tokens, int world_size, double times) {
  const std::int64_t per_token = architecture.language_model.value().experts.per_token;
  const double balanced = static_cast<double>(tokens * per_token) / world_size;
  return std::min(safe_capacity(unit, per_token, tokens, world_size),
                  static_cast<std::int64_t>(std::ceil(times * balanced)));
}

StagedCost staged_cost(const Model& model, int unit, const StagedSetting& setting,
                       const torch::Tensor& input, const Batch& batch, UnitMeter& meter,
                       bool deterministic, const StoppingRule& rule) {
  return StagedBench(model, unit, setting, input, batch, meter, deterministic).run(rule);
}

}  // namespace athanor
