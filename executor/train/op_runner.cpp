// SPDX-License-Identifier: Apache-2.0
#include "executor/train/op_runner.hpp"

#include "executor/snapshot/peer_copies.hpp"
#include "executor/train/collective_ops.hpp"
#include "executor/train/transfer_ops.hpp"
#include "sim/base/errors.hpp"

#include <utility>

namespace athanor {

OpRunner::OpRunner(const RankContext& context, const Architecture& architecture,
                   std::vector<UnitRunner>& runners, BatchSource batches,
                   const OptimizerOptions& optimizer)
    : context_(context),
      compute_(context, architecture, runners, std::move(batches)),
      optimizer_(context, architecture, optimizer) {}

void OpRunner::run(std::int32_t operation, const StepState& state) {
  const Operation& op = context_.program.operations.at(operation);
  if (makes_snapshot(op.kind) && !state.makes_snapshot) return;
  switch (op.kind) {
    case OpKind::ParamRead:
      return context_.memory.read_parameters(op);
    case OpKind::Fetch:
      return fetch_shard(context_, op, state.trained);
    case OpKind::Gather:
      return gather_chunk(context_, op);
    case OpKind::Forward:
      return compute_.forward(operation, state);
    case OpKind::Recompute:
      return compute_.recompute(operation);
    case OpKind::Backward:
      return compute_.backward(operation);
    case OpKind::OutputD2H:
      return copy_output_to_host(context_, op, compute_.output(op));
    case OpKind::OutputH2D:
      return copy_output_to_device(context_, op, compute_.output(op));
    case OpKind::Reduce:
      return reduce_chunk(context_, op);
    case OpKind::GradAdd:
      return add_gradient(context_, op);
    case OpKind::GradH2D:
      return copy_gradient_sum(context_, op);
    case OpKind::GradD2H:
      return op.accumulator < 0 ? store_gradient(context_, op) : copy_gradient_sum(context_, op);
    case OpKind::GradWrite:
      return context_.memory.write_gradient(op);
    case OpKind::SquareSum:
      return optimizer_.square_sum(operation, state);
    case OpKind::Norm:
      return compute_norm(context_, op, state.scalars);
    case OpKind::Fence:
      return optimizer_.note_gradients(op, state);
    case OpKind::Mark:
      return op.of_start ? optimizer_.note_start(state) : optimizer_.note_version(state);
    case OpKind::PeerCopy:
      return context_.peers->copy(op, state.step);
    case OpKind::PeerStore:
      return context_.peers->store(op, state.step, context_.device);
    case OpKind::PeerMark:
      return context_.peers->note_copy(state.step);
    case OpKind::Adam:
    case OpKind::AdamRollback:
      return optimizer_.adam(op, state);
    case OpKind::ParamH2D:
      return copy_parameters_to_device(context_, op, state.trained + 1);
    case OpKind::StateRead:
      return op.lane == Lane::H2D ? copy_state_to_device(context_, op)
                                  : context_.memory.read_state(op);
    case OpKind::StateWrite:
      return op.lane == Lane::D2H ? copy_state_to_host(context_, op)
                                  : context_.memory.write_state(op);
    case OpKind::StateD2H:
      return keep_state(context_, op, state.step);
    case OpKind::Dispatch:
    case OpKind::Combine:
      return exchange_rows(context_, op, compute_.travels(operation));
    case OpKind::ActivationGather:
      return gather_rows(context_, op, compute_.travels(operation));
    case OpKind::ActivationReduce:
      return sum_rows_of_ranks(context_, op, compute_.travels(operation));
    case OpKind::Loss:
      return gather_losses(context_, op, state.scalars);
  }
  throw Error("unknown operation kind");
}

}  // namespace athanor
