// SPDX-License-Identifier: Apache-2.0
#include "executor/travel/token_moves.hpp"

#include "executor/experts/expert_operators.hpp"

#include <torch/autograd.h>

namespace athanor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

class Depart : public Function<Depart> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& tokens, const Tensor& pairs,
                        const Tensor& slot_of_pair, std::int64_t choices) {
    context->save_for_backward({slot_of_pair});
    context->saved_data["choices"] = choices;
    return tokens.index_select(0, at::floor_divide(pairs, choices));
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {sum_rows(gradients[0].contiguous(), context->get_saved_variables()[0],
                     context->saved_data["choices"].toInt()),
            {},
            {},
            {}};
  }
};

class Arrive : public Function<Arrive> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& rows, const Tensor& weights,
                        const Tensor& pairs, const Tensor& slot_of_pair) {
    context->save_for_backward({rows, weights, pairs, slot_of_pair});
    return sum_rows(rows, slot_of_pair, weights.size(1), weights.flatten());
  }

  /// A row of an empty slot gets the gradient of some pair, which no expert reads.
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor &rows = saved[0], &weights = saved[1], &pairs = saved[2], &slot_of_pair = saved[3];
    Tensor of_rows = gradients[0].index_select(0, at::floor_divide(pairs, weights.size(1)));
    const Tensor of_weights = (rows * of_rows)
                                  .sum(-1, /*keepdim=*/false, torch::kFloat32)
                                  .index_select(0, slot_of_pair)
                                  .view_as(weights)
                                  .to(weights.scalar_type());
    of_rows.mul_(weights.flatten().index_select(0, pairs).unsqueeze(1));
    return {of_rows, of_weights, {}, {}};
  }
};

}  // namespace

Tensor depart(const Tensor& tokens, const TokenSlots& slots, std::int64_t choices) {
  return Depart::apply(tokens, slots.pairs, slots.of_pairs, choices);
}

Tensor arrive(const Tensor& rows, const Tensor& weights, const TokenSlots& slots) {
  return Arrive::apply(rows, weights, slots.pairs, slots.of_pairs);
}

}  // namespace athanor
