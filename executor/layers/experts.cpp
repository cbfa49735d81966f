// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/experts.hpp"

#include "executor/layers/fused_operators.hpp"
#include "executor/layers/plain_layers.hpp"
#include "sim/base/errors.hpp"

#include <ATen/ops/_embedding_bag_forward_only.h>
#include <ATen/ops/silu_backward.h>
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

/// Returns activation(gate) * up.
Tensor gated(const Tensor& gate_up, const std::string& activation) {
  if (fused::available(gate_up)) return fused::gate(gate_up, activation);
  const Tensors parts = gate_up.chunk(2, -1);
  return activate(parts[0], activation).mul_(parts[1]);
}

/// Returns the gradient of gate and up, from that of the gated product.
Tensor gated_backward(const Tensor& gradient, const Tensor& gate_up,
                      const std::string& activation) {
  if (fused::available(gate_up)) return fused::gate_backward(gradient, gate_up, activation).packed;
  if (activation != "silu") throw Error("experts have no gradient of '" + activation + "'");
  const Tensors parts = gate_up.chunk(2, -1);
  Tensor result = torch::empty_like(gate_up);
  Tensors of = result.chunk(2, -1);
  of[0].copy_(at::silu_backward(gradient * parts[1], parts[0]));
  of[1].copy_(activate(parts[0], activation).mul_(gradient));
  return result;
}

/// Returns for each pair (token, choice), in that order, its row. Sorting gives the inverse of a
/// permutation with the same bits everywhere.
Tensor rows_of_pairs(const Tensor& pairs) { return std::get<1>(at::sort(pairs)); }

/// Returns for each token the sum of its rows, each times its weight, in the order of its choices:
/// a bag of rows for each token.
Tensor combined(const Tensor& rows, const Tensor& pairs, std::int64_t choices,
                const std::optional<Tensor>& weights) {
  const Tensor begins = torch::arange(0, pairs.size(0), choices, pairs.options());
  return std::get<0>(at::_embedding_bag_forward_only(rows, rows_of_pairs(pairs), begins,
                                                     /*scale_grad_by_freq=*/false, /*sum=*/0,
                                                     /*sparse=*/false, weights));
}

class Experts : public Function<Experts> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& choice_weights,
                        const Tensor& pairs, const Tensor& ends,
                        const c10::intrusive_ptr<KeptCall>& call, at::TensorList /*gate_up*/,
                        at::TensorList /*down*/) {
    const ExpertWeights& weights = call->weights;
    const std::int64_t choices = choice_weights.size(1);
    const Tensor tokens = at::floor_divide(pairs, choices);
    const Tensor gate_up =
        grouped_product(x.index_select(0, tokens), weights.gate_up, ends, call->by);
    const Tensor rows =
        grouped_product(gated(gate_up, call->activation), weights.down, ends, call->by);
    context->save_for_backward({x, choice_weights, pairs, ends, gate_up});
    context->saved_data["call"] = c10::IValue::make_capsule(call);
    return combined(rows, pairs, choices, choice_weights.flatten());
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto kept = context->saved_data["call"].toCapsule();
    const KeptCall& call = static_cast<const KeptCall&>(*kept);
    const Tensor &x = saved[0], &choice_weights = saved[1], &pairs = saved[2], &ends = saved[3];
    const std::int64_t choices = choice_weights.size(1);
    const Tensor tokens = at::floor_divide(pairs, choices);
    const Tensor row_weights = choice_weights.flatten().index_select(0, pairs).unsqueeze(1);

    Tensor inner = gated(saved[4], call.activation);
    Tensor of_rows = gradients[0].index_select(0, tokens);
    Tensor of_inner = grouped_row_gradient(of_rows, call.weights.down, ends, call.by);
    const Tensor of_choices = choice_gradient(inner, of_inner, pairs).view_as(choice_weights);
    inner.mul_(row_weights);
    Tensors of_down = grouped_weight_gradients(of_rows, inner, call.weights.down, ends, call.by);
    of_rows.reset();
    inner.reset();
    of_inner.mul_(row_weights);
    const Tensor of_gate_up = gated_backward(of_inner, saved[4], call.activation);
    of_inner.reset();
    Tensors of_weights = grouped_weight_gradients(of_gate_up, x.index_select(0, tokens),
                                                  call.weights.gate_up, ends, call.by);
    const Tensor of_x =
        combined(grouped_row_gradient(of_gate_up, call.weights.gate_up, ends, call.by), pairs,
                 choices, std::nullopt);
    variable_list result{of_x, of_choices.to(choice_weights.scalar_type()), {}, {}, {}};
    result.insert(result.end(), of_weights.begin(), of_weights.end());
    result.insert(result.end(), of_down.begin(), of_down.end());
    return result;
  }

 private:
  /// Returns the gradient of the weight of each pair: that of its row times the row. The product
  /// with the row is the same before the last layer as behind it, so no row need be kept.
  static Tensor choice_gradient(const Tensor& inner, const Tensor& of_inner, const Tensor& pairs) {
    return (inner * of_inner)
        .sum(-1, /*keepdim=*/false, torch::kFloat32)
        .index_select(0, rows_of_pairs(pairs));
  }
};

}  // namespace

Tensor apply_experts(const Tensor& x, const Routing& routing, const ExpertWeights& weights,
                     const std::string& activation, std::optional<GroupedBy> by) {
  if (!by) by = grouped_by(x, weights.gate_up);
  return Experts::apply(x, routing.weights, routing.pairs, routing.ends,
                        c10::make_intrusive<KeptCall>(weights, activation, *by),
                        at::TensorList(weights.gate_up.weights),
                        at::TensorList(weights.down.weights));
}

}  // namespace athanor
