// SPDX-License-Identifier: Apache-2.0
#include "executor/experts/experts.hpp"

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
  KeptCall(ExpertWeights kept, Gate kind, GroupedBy how)
      : weights(std::move(kept)), gate(std::move(kind)), by(how) {}
  ExpertWeights weights;
  Gate gate;
  GroupedBy by;
};

class Experts : public Function<Experts> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& choice_weights,
                        const Routing& routing, const c10::intrusive_ptr<KeptCall>& call,
                        at::TensorList /*gate_up*/, at::TensorList /*gate_up_biases*/,
                        at::TensorList /*down*/, at::TensorList /*down_biases*/) {
    const ExpertWeights& weights = call->weights;
    const Tensor gate_up =
        grouped_product(rows_of_tokens(x, routing), weights.gate_up, routing.ends, call->by);
    const Tensor rows =
        grouped_product(gated(gate_up, call->gate), weights.down, routing.ends, call->by);
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
    // The product with a row is the same before the last layer as behind it, but for the bias, so
    // no row is kept for the gradient of its weight.
    WeightedGateGradients of_gate =
        weighted_gate_backward(grouped_row_gradient(of_rows, call.weights.down, ends, call.by),
                               gate_up, routing, call.gate);
    const bool has_biases = !call.weights.down.biases.empty();
    if (has_biases) {
      of_gate.weights += grouped_bias_products(of_rows, call.weights.down, ends)
                             .index_select(0, routing.rows)
                             .view_as(routing.weights);
    }
    const Tensors of_down =
        grouped_weight_gradients(of_rows, of_gate.inner, call.weights.down, ends, call.by);
    of_gate.inner.reset();
    if (has_biases) {
      of_rows.mul_(routing.weights.flatten().index_select(0, routing.pairs).unsqueeze(1));
    }
    const Tensors of_down_biases =
        grouped_bias_gradients(of_rows, call.weights.down, ends, call.by);
    of_rows.reset();
    const Tensors of_gate_up = grouped_weight_gradients(of_gate.packed, rows_of_tokens(x, routing),
                                                        call.weights.gate_up, ends, call.by);
    const Tensors of_gate_up_biases =
        grouped_bias_gradients(of_gate.packed, call.weights.gate_up, ends, call.by);
    const Tensor of_x =
        sum_rows(grouped_row_gradient(of_gate.packed, call.weights.gate_up, ends, call.by),
                 routing.rows, routing.weights.size(1));
    variable_list result{of_x, of_gate.weights.to(routing.weights.scalar_type()), {}, {}};
    for (const Tensors* list : {&of_gate_up, &of_gate_up_biases, &of_down, &of_down_biases}) {
      result.insert(result.end(), list->begin(), list->end());
    }
    return result;
  }
};

}  // namespace

Tensor apply_experts(const Tensor& x, const Routing& routing, const ExpertWeights& weights,
                     const Gate& gate, std::optional<GroupedBy> by) {
  if (!by) by = grouped_by(x, weights.gate_up);
  const ExpertLayers &gate_up = weights.gate_up, &down = weights.down;
  return Experts::apply(x, routing.weights, routing,
                        c10::make_intrusive<KeptCall>(weights, gate, *by),
                        at::TensorList(gate_up.weights), at::TensorList(gate_up.biases),
                        at::TensorList(down.weights), at::TensorList(down.biases));
}

}  // namespace athanor
