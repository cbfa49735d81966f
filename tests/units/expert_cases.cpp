// SPDX-License-Identifier: Apache-2.0
#include "tests/units/expert_cases.hpp"

#include "executor/layers/plain_layers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/autograd.h>

namespace athanor::test {
namespace {

using torch::Tensor;

/// x, weights of choices, and all experts' gate and up, and down, each in one matrix.
Tensors inputs_of(const ExpertCase& of) {
  return {normal({of.tokens, of.hidden}, 1), normal({of.tokens, of.choices}, 2),
          weight_of(of.hidden, of.experts * 2 * of.inner, 3).t().contiguous(),
          weight_of(of.inner, of.experts * of.hidden, 4).t().contiguous()};
}

ExpertWeights weights_of(const ExpertCase& of, const Tensor& gate_up, const Tensor& down) {
  return {{gate_up.split(of.inner), 2}, {down.split(of.hidden), 1}};
}

Tensor experts_output(const ExpertCase& of, GroupedBy by, const Tensors& in) {
  Routing routing = route(scores_of(of).to(in[0].device(), torch::kFloat32), of.choices, true);
  routing.weights = in[1];
  return apply_experts(in[0], routing, weights_of(of, in[2], in[3]), "silu", by);
}

/// Multiplies every token with copies of its experts' weights.
Tensor plain_output(const ExpertCase& of, const Tensors& in) {
  const Tensor chosen =
      std::get<1>(scores_of(of).to(torch::kFloat32).softmax(-1).topk(of.choices)).flatten();
  const Tensor rows = in[0].repeat_interleave(of.choices, 0).unsqueeze(-1);
  const auto product = [&](const Tensor& weights, const Tensor& x) {
    return at::bmm(weights.view({of.experts, -1, x.size(1)}).index_select(0, chosen), x);
  };
  const Tensors parts = product(in[2], rows).chunk(2, 1);
  const Tensor out = product(in[3], activate(parts[0], "silu") * parts[1]).squeeze(-1);
  return (out * in[1].flatten().unsqueeze(1)).view({of.tokens, of.choices, of.hidden}).sum(1);
}

}  // namespace

Tensor scores_of(const ExpertCase& of) {
  if (!of.skewed) return normal({of.tokens, of.experts}, 7);
  return torch::arange(of.experts, torch::kFloat64).expand({of.tokens, of.experts}) * 0.5;
}

void check_experts(const ExpertCase& of, GroupedBy by, torch::Device device,
                   torch::ScalarType dtype) {
  compare([&](const Tensors& in) { return Tensors{experts_output(of, by, in)}; },
          [&](const Tensors& in) { return Tensors{plain_output(of, in)}; }, inputs_of(of), device,
          dtype);
}

void check_bound_gradients(const ExpertCase& of, GroupedBy by, torch::Device device,
                           torch::ScalarType dtype) {
  Tensors in = inputs_of(of);
  for (Tensor& input : in) input = input.to(device, dtype).requires_grad_();
  experts_output(of, by, in).sum().backward();

  // Leaves of their own, whose gradients lie in one buffer each, as a unit's do.
  ExpertWeights weights = weights_of(of, in[2].detach().clone(), in[3].detach().clone());
  const Tensors buffers{torch::ones_like(in[2]), torch::ones_like(in[3])};
  const auto bind = [](ExpertLayers& layers, const Tensor& buffer) {
    const Tensors parts = buffer.split(layers.weights.front().size(0));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      layers.weights[i].requires_grad_().mutable_grad() = parts[i];
    }
  };
  bind(weights.gate_up, buffers[0]);
  bind(weights.down, buffers[1]);
  Routing routing = route(scores_of(of).to(device, torch::kFloat32), of.choices, true);
  routing.weights = in[1].detach();
  apply_experts(in[0].detach(), routing, weights, "silu", by).sum().backward();
  check_close(buffers[0], (in[2].grad() + 1.0).to(torch::kFloat64).cpu(), dtype);
  check_close(buffers[1], (in[3].grad() + 1.0).to(torch::kFloat64).cpu(), dtype);
}

}  // namespace athanor::test
