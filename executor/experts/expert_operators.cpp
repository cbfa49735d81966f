// SPDX-License-Identifier: Apache-2.0
#include "executor/experts/expert_operators.hpp"

#include "executor/layers/dispatched_operator.hpp"
#include "executor/layers/fused_operators.hpp"
#include "executor/layers/plain_layers.hpp"
#include "sim/base/errors.hpp"

#include <ATen/ops/_embedding_bag_forward_only.h>
#include <ATen/ops/silu_backward.h>

#include <optional>
#include <tuple>
#include <vector>

namespace athanor {
namespace {

using torch::Tensor;
using Tensors = std::vector<Tensor>;

std::int64_t choices_of(const Routing& routing) { return routing.weights.size(1); }

constexpr double kSteepness = 1.702;  // factor in the sigmoid of gpt_oss's gate

Tensor clamped_gated(const Tensor& packed, double limit) {
  const Tensors parts = packed.chunk(2, -1);
  Tensor gate = parts[0].clamp_max(limit);
  gate.mul_(at::sigmoid(gate * kSteepness));
  return gate.mul_(parts[1].clamp(-limit, limit).add_(1));
}

Tensor clamped_gate_backward(const Tensor& gradient, const Tensor& packed, double limit) {
  const Tensors parts = packed.chunk(2, -1);
  Tensor result = torch::empty_like(packed);
  Tensors of = result.chunk(2, -1);
  const Tensor gate = parts[0].clamp_max(limit);
  const Tensor open = at::sigmoid(gate * kSteepness);
  const Tensor slope = open * (gate * kSteepness * (1 - open) + 1);
  const Tensor up = parts[1].clamp(-limit, limit);
  of[0].copy_(gradient * (up + 1) * slope).mul_(parts[0] <= limit);
  of[1].copy_(gradient * gate * open).mul_(up == parts[1]);
  return result;
}

/// Returns the gradient of gate and up, from that of the gated product.
Tensor plain_gate_backward(const Tensor& gradient, const Tensor& packed, const Gate& gate) {
  if (gate.limit > 0) return clamped_gate_backward(gradient, packed, gate.limit);
  if (gate.activation != "silu") {
    throw Error("experts have no gradient of '" + gate.activation + "'");
  }
  const Tensors parts = packed.chunk(2, -1);
  Tensor result = torch::empty_like(packed);
  Tensors of = result.chunk(2, -1);
  of[0].copy_(at::silu_backward(gradient * parts[1], parts[0]));
  of[1].copy_(activate(parts[0], gate.activation).mul_(gradient));
  return result;
}

WeightedGateGradients plain_weighted_backward(const Tensor& grad_y, const Tensor& packed,
                                              const Routing& routing, const Gate& gate) {
  Tensor inner = gated(packed, gate);
  const Tensor products = (inner * grad_y).sum(-1, /*keepdim=*/false, torch::kFloat32);
  const Tensor of_rows = routing.weights.flatten().index_select(0, routing.pairs).unsqueeze(1);
  inner.mul_(of_rows);
  return {.inner = inner,
          .packed = plain_gate_backward(grad_y * of_rows, packed, gate),
          .weights = products.index_select(0, routing.rows).view_as(routing.weights)};
}

}  // namespace

Tensor inverse_permutation(const Tensor& permutation) {
  // Sorting gives the inverse with the same bits everywhere.
  if (!permutation.is_cuda()) return std::get<1>(at::sort(permutation));
  static const fused::Operator<Tensor(const Tensor&)> call("athanor::inverse_permutation");
  return call(permutation);
}

Tensor rows_of_tokens(const Tensor& x, const Routing& routing) {
  if (!fused::available(x)) {
    return x.index_select(0, at::floor_divide(routing.pairs, choices_of(routing)));
  }
  static const fused::Operator<Tensor(const Tensor&, const Tensor&, std::int64_t)> call(
      "athanor::rows_of_tokens");
  return call(x, routing.rows, choices_of(routing));
}

Tensor sum_rows(const Tensor& x, const Tensor& rows, std::int64_t choices,
                const std::optional<Tensor>& weights) {
  if (fused::available(x)) {
    static const fused::Operator<Tensor(const Tensor&, const Tensor&, std::int64_t,
                                        const std::optional<Tensor>&)>
        call("athanor::sum_rows");
    return call(x, rows, choices, weights);
  }
  // A bag of rows for each token.
  const Tensor begins = torch::arange(0, rows.size(0), choices, rows.options());
  return std::get<0>(at::_embedding_bag_forward_only(x, rows, begins,
                                                     /*scale_grad_by_freq=*/false, /*sum=*/0,
                                                     /*sparse=*/false, weights));
}

Tensor gated(const Tensor& packed, const Gate& gate) {
  if (gate.limit > 0) return clamped_gated(packed, gate.limit);
  const Tensors parts = packed.chunk(2, -1);
  if (fused::available(parts[0])) return fused::gate(packed, gate.activation);
  return activate(parts[0], gate.activation).mul_(parts[1]);
}

WeightedGateGradients weighted_gate_backward(const Tensor& grad_y, const Tensor& packed,
                                             const Routing& routing, const Gate& gate) {
  if (gate.limit > 0 || !fused::available(grad_y)) {
    return plain_weighted_backward(grad_y, packed, routing, gate);
  }
  static const fused::Operator<std::tuple<Tensor, Tensor>(Tensor&, const Tensor&, const Tensor&,
                                                          const Tensor&, c10::string_view)>
      call("athanor::weighted_gate_backward_");
  Tensor inner = grad_y;
  auto [of_packed, of_weights] =
      call(inner, packed, routing.weights, routing.pairs, gate.activation);
  return {inner, of_packed, of_weights};
}

}  // namespace athanor

TORCH_LIBRARY_FRAGMENT(athanor, library) {
  library.def("inverse_permutation(Tensor permutation) -> Tensor");
  library.def("rows_of_tokens(Tensor x, Tensor rows, int choices) -> Tensor");
  library.def("sum_rows(Tensor x, Tensor rows, int choices, Tensor? weights) -> Tensor");
  library.def(
      "weighted_gate_backward_(Tensor(a!) grad_y, Tensor packed, Tensor weights, Tensor pairs,"
      " str activation) -> (Tensor, Tensor)");
}
