// SPDX-License-Identifier: Apache-2.0
#include "executor/experts/experts.hpp"

#include "executor/experts/expert_operators.hpp"

#include <torch/autograd.h>

#include <utility>

namespace athanor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

/// Keeps what backward needs beside tensors with gradients. Expert weights are leaves whose
/// storage follows the unit's slot, and saving hundreds of them one by one costs the host time.
struct KeptCall : torch::CustomClassHolder {
  KeptCall(ExpertWeights kept, std::string name, GroupedBy how)
      : weights(std::move(kept)), activation(std::move(name)), by(how) {}
  ExpertWeights weights;
  std::string activation;
  GroupedBy by;
};

class Experts : public Function<Experts> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& choice_weights,
                        const Routing& routing, const c10::intrusive_ptr<KeptCall>& call,
                        at::TensorList /*gate_up*/, at::TensorList /*down*/) {
    const ExpertWeights& weights = call->weights;
    const Tensor gate_up =
        grouped_product(rows_of_tokens(x, routing), weights.gate_up, routing.ends, call->by);
    const Tensor rows =
        grouped_product(gated(gate_up, call->activation), weights.down, routing.ends, call->by);
    context->save_for_backward(
        {x, choice_weights, routing.pairs, routing.rows, routing.ends, gate_up});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return sum_rows(rows, routing.rows, choice_weights.size(1), choice_weights.flatten());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto kept = context->saved_data["call"].toCapsule();
    const KeptCall& call = static_cast<const KeptCall&>(*kept);
    const Tensor &x = saved[0], &ends = saved[4], &gate_up = saved[5];
    const Routing routing{.weights = saved[1],
                          .probabilities = {},
                          .pairs = saved[2],
                          .rows = saved[3],
                          .ends = ends};

    Tensor of_rows = rows_of_tokens(gradients[0], routing);
    // The product with a row is the same before the last layer as behind it, so no row is kept for
    // the gradient of its weight.
    WeightedGateGradients of_gate =
        weighted_gate_backward(grouped_row_gradient(of_rows, call.weights.down, ends, call.by),
                               gate_up, routing, call.activation);
    Tensors of_down =
        grouped_weight_gradients(of_rows, of_gate.inner, call.weights.down, ends, call.by);
    of_rows.reset();
    of_gate.inner.reset();
    Tensors of_weights = grouped_weight_gradients(of_gate.packed, rows_of_tokens(x, routing),
                                                  call.weights.gate_up, ends, call.by);
    const Tensor of_x =
        sum_rows(grouped_row_gradient(of_gate.packed, call.weights.gate_up, ends, call.by),
                 routing.rows, routing.weights.size(1));
    variable_list result{of_x, of_gate.weights.to(routing.weights.scalar_type()), {}, {}};
    result.insert(result.end(), of_weights.begin(), of_weights.end());
    result.insert(result.end(), of_down.begin(), of_down.end());
    return result;
  }
};

}  // namespace

Tensor apply_experts(const Tensor& x, const Routing& routing, const ExpertWeights& weights,
                     const std::string& activation, std::optional<GroupedBy> by) {
  if (!by) by = grouped_by(x, weights.gate_up);
  return Experts::apply(
      x, routing.weights, routing, c10::make_intrusive<KeptCall>(weights, activation, *by),
      at::TensorList(weights.gate_up.weights), at::TensorList(weights.down.weights));
}

}  // namespace athanor
