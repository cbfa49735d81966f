// SPDX-License-Identifier: Apache-2.0
// Phases of a unit whose pattern has exchanges: stages on the compute lane, with collectives in
// between. Every pattern is lowered here; UnitPattern says what is particular to one.
#include "sim/base/errors.hpp"
#include "sim/lowering/step_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <utility>

namespace athanor {
namespace {

const StagedPhase& phase_of(const Profile& profile, const StagedCost& cost, const Operation& op,
                            bool deterministic) {
  if (op.kind == OpKind::Backward) return profile.backward(cost, deterministic);
  if (op.kind == OpKind::Recompute) return cost.recompute;
  return op.keep ? cost.forward_keep : cost.forward_discard;
}

/// The exchange whose result is the gradient of another one's.
Exchange gradient_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::Dispatch:
      return Exchange::Combine;
    case Exchange::Combine:
      return Exchange::Dispatch;
    case Exchange::Gather:
      return Exchange::Reduce;
    case Exchange::Reduce:
      return Exchange::Gather;
  }
  throw Error("lowering: an exchange of an unknown kind");
}

OpKind kind_of(Exchange exchange) {
  switch (exchange) {
    case Exchange::Dispatch:
      return OpKind::Dispatch;
    case Exchange::Combine:
      return OpKind::Combine;
    case Exchange::Gather:
      return OpKind::ActivationGather;
    case Exchange::Reduce:
      return OpKind::ActivationReduce;
  }
  throw Error("lowering: an exchange of an unknown kind");
}

std::vector<Exchange> exchanges_of(const UnitPattern& pattern, bool backward) {
  std::vector<Exchange> exchanges = pattern.exchanges();
  if (!backward) return exchanges;
  std::ranges::reverse(exchanges);
  std::ranges::transform(exchanges, exchanges.begin(), gradient_of);
  return exchanges;
}

}  // namespace

bool StepBuilder::has_stages(std::int32_t unit) const {
  return !unit_plan(unit).pattern->exchanges().empty();
}

StepBuilder::Held StepBuilder::held_by(std::int32_t unit) const {
  const UnitCost& whole = cost(unit);
  if (!has_stages(unit)) return {whole.output_bytes, whole.saved_bytes, whole.grad_input_bytes};
  const StagedCost& staged = profile_.staged_cost(whole.unit_class, plan_, unit_plan(unit));
  return {staged.output_bytes, staged.saved_bytes, staged.grad_input_bytes};
}

StepBuilder::Phase StepBuilder::emit_phase(Operation op, const Access& access,
                                           std::vector<std::int32_t> consumed) {
  if (has_stages(access.unit)) {
    const StagedCost& staged =
        profile_.staged_cost(cost(access.unit).unit_class, plan_, unit_plan(access.unit));
    return emit_stages(op, access, phase_of(profile_, staged, op, plan_.deterministic),
                       std::move(consumed));
  }
  consumed.insert(consumed.end(), op.frees.begin(), op.frees.end());
  op.frees = std::move(consumed);
  const std::int32_t index = emit(std::move(op));
  return {index, index};
}

/// Memory is allocated and freed on the compute lane alone, so stages take the buffers of the
/// exchange behind them, and what they hold is one number.
StepBuilder::Phase StepBuilder::emit_stages(const Operation& op, const Access& access,
                                            const StagedPhase& costs,
                                            std::vector<std::int32_t> consumed) {
  const auto stages = static_cast<std::int32_t>(costs.stages.size());
  if (std::cmp_not_equal(stages, unit_plan(access.unit).pattern->exchanges().size() + 1)) {
    throw InputError(
        "profile of " + profile_.architecture.name,
        fmt::format("{} stages of unit class '{}' under pattern '{}'", stages,
                    cost(access.unit).unit_class, unit_plan(access.unit).pattern->name()),
        "Profile the model again.");
  }
  Phase phase;
  std::vector<std::int32_t> freed = std::move(consumed);
  for (std::int32_t stage = 0; stage < stages; ++stage) {
    const PhaseCost& stage_cost = costs.stages[static_cast<std::size_t>(stage)];
    Operation part = compute_operation(op.kind, access, stage_cost);
    part.keep = op.keep;
    part.stage = stage;
    part.stages = stages;
    part.frees = std::exchange(freed, {});
    if (stage == 0) part.waits = op.waits;
    if (stage > 0) part.waits.push_back(static_cast<std::int32_t>(program_.operations.size()) - 1);
    if (stage + 1 < stages) {
      freed = {between_stages(op.kind, access, stage, costs.held[static_cast<std::size_t>(stage)])};
      part.allocates = freed;
    } else {
      part.allocates = op.allocates;
      part.frees.insert(part.frees.end(), op.frees.begin(), op.frees.end());
    }
    const std::int32_t index = emit(std::move(part));
    if (stage == 0) phase.first = index;
    phase.last = index;
    if (stage + 1 < stages) emit_exchange(index, stage);
  }
  return phase;
}

std::int32_t StepBuilder::between_stages(OpKind kind, const Access& access, std::int32_t stage,
                                         Bytes bytes) {
  std::string name = fmt::format("{} {} after stage {}", op_kind_name(kind),
                                 program_.unit_names[static_cast<std::size_t>(access.unit)], stage);
  const auto [found, is_new] = between_stages_.try_emplace({name, access.member}, -1);
  if (is_new) found->second = add_buffer(std::move(name), access.member, bytes);
  return found->second;
}

void StepBuilder::emit_exchange(std::int32_t after, std::int32_t index) {
  const Operation& stage = at(after);
  const bool backward = stage.kind == OpKind::Backward;
  const UnitPlan& unit = unit_plan(stage.unit);
  const Exchange exchange = exchanges_of(*unit.pattern, backward)[static_cast<std::size_t>(index)];
  Operation op;
  op.kind = kind_of(exchange);
  op.lane = Lane::Collective;
  op.unit = stage.unit;
  op.micro_batch = stage.micro_batch;
  op.member = stage.member;
  op.backward = backward;
  op.bytes = unit.pattern->exchange_bytes(
      plan_, profile_.architecture.units[static_cast<std::size_t>(stage.unit)], unit, exchange,
      backward);
  op.waits.push_back(after);
  emit(std::move(op));
}

}  // namespace athanor
