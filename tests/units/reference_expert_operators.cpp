// SPDX-License-Identifier: Apache-2.0
// Defines the operators of experts on the host by LibTorch's operators, as reference_operators.cpp
// does for the others. Sums are taken in fp32 and rounded once.
#include "executor/layers/plain_layers.hpp"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace {

using torch::Tensor;

Tensor rows_of_tokens(const Tensor& x, const Tensor& rows, std::int64_t choices) {
  Tensor result = torch::empty({rows.numel(), x.size(1)}, x.options());
  return result.index_copy_(0, rows, x.repeat_interleave(choices, 0));
}

Tensor sum_rows(const Tensor& x, const Tensor& rows, std::int64_t choices,
                const std::optional<Tensor>& weights) {
  Tensor of_pairs = x.index_select(0, rows).to(torch::kFloat32);
  if (weights) of_pairs = of_pairs * weights->unsqueeze(1);
  return of_pairs.view({-1, choices, x.size(1)}).sum(1).to(x.scalar_type());
}

std::tuple<Tensor, Tensor> weighted_gate_backward(Tensor& grad_y, const Tensor& packed,
                                                  const Tensor& weights, const Tensor& pairs,
                                                  c10::string_view activation) {
  const c10::impl::ForceDispatchKeyGuard with_autograd(c10::default_included_set,
                                                       c10::default_excluded_set);
  const at::AutoGradMode with_gradients(true);
  const Tensor gate_up = packed.detach().clone().requires_grad_();
  const Tensor leaf = weights.detach().clone().requires_grad_();
  const std::vector<Tensor> parts = gate_up.chunk(2, -1);
  const Tensor y = leaf.flatten().index_select(0, pairs).unsqueeze(1) *
                   athanor::activate(parts[0], std::string(activation)) * parts[1];
  const auto found = torch::autograd::grad({y}, {gate_up, leaf}, {grad_y.clone()});
  const at::NoGradGuard no_gradient;
  grad_y.copy_(y);
  return {found[0], found[1].to(torch::kFloat32)};
}

}  // namespace

TORCH_LIBRARY_IMPL(athanor, CPU, library) {
  library.impl("rows_of_tokens", rows_of_tokens);
  library.impl("sum_rows", sum_rows);
  library.impl("weighted_gate_backward_", weighted_gate_backward);
}
