// SPDX-License-Identifier: Apache-2.0
#include "tests/units/expert_cases.hpp"

#include "executor/layers/plain_layers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/autograd.h>

namespace athanor::test {
namespace {

using torch::Tensor;

/// Places of the inputs: x, weights of choices, then all experts' gate and up in one matrix, down
/// in another, and the biases of both.
enum At : std::size_t { kX, kChoices, kGateUp, kDown, kGateUpBias, kDownBias };

Tensors inputs_of(const ExpertCase& of) {
  Tensors inputs{normal({of.tokens, of.hidden}, 1), normal({of.tokens, of.choices}, 2),
                 weight_of(of.hidden, of.experts * 2 * of.inner, 3).t().contiguous(),
                 weight_of(of.inner, of.experts * of.hidden, 4).t().contiguous()};
  if (of.biases) {
    inputs.push_back(bias_of(of.experts * 2 * of.inner, 5));
    inputs.push_back(bias_of(of.experts * of.hidden, 6));
  }
  return inputs;
}

ExpertWeights weights_of(const ExpertCase& of, const Tensors& in) {
  ExpertWeights weights{{in[kGateUp].split(of.inner), 2}, {in[kDown].split(of.hidden), 1}};
  if (of.biases) {
    weights.gate_up.biases = in[kGateUpBias].split(of.inner);
    weights.down.biases = in[kDownBias].split(of.hidden);
  }
  return weights;
}

Gate gate_of(const ExpertCase& of) { return {"silu", of.gate_limit}; }

Tensor experts_output(const ExpertCase& of, GroupedBy by, const Tensors& in) {
  Routing routing = route(scores_of(of).to(in[kX].device(), torch::kFloat32), of.choices, true);
  routing.weights = in[kChoices];
  return apply_experts(in[kX], routing, weights_of(of, in), gate_of(of), by);
}

Tensor plain_gate(const ExpertCase& of, const Tensor& gate, const Tensor& up) {
  if (of.gate_limit == 0) return activate(gate, "silu") * up;
  const Tensor least = at::minimum(gate, torch::full_like(gate, of.gate_limit));
  return least / (1 + (-1.702 * least).exp()) * (up.clamp(-of.gate_limit, of.gate_limit) + 1);
}

/// Multiplies every token with copies of its experts' weights.
Tensor plain_output(const ExpertCase& of, const Tensors& in) {
  const Tensor chosen =
      std::get<1>(scores_of(of).to(torch::kFloat32).softmax(-1).topk(of.choices)).flatten();
  const auto of_chosen = [&](const Tensor& all) {
    return all.view({of.experts, -1}).index_select(0, chosen).unsqueeze(-1);
  };
  const Tensor rows = in[kX].repeat_interleave(of.choices, 0).unsqueeze(-1);
  const auto product = [&](std::size_t weights, std::size_t bias, const Tensor& x) {
    const Tensor y =
        at::bmm(in[weights].view({of.experts, -1, x.size(1)}).index_select(0, chosen), x);
    return of.biases ? y + of_chosen(in[bias]) : y;
  };
  const Tensors parts = product(kGateUp, kGateUpBias, rows).chunk(2, 1);
  const Tensor out = product(kDown, kDownBias, plain_gate(of, parts[0], parts[1])).squeeze(-1);
  return (out * in[kChoices].flatten().unsqueeze(1))
      .view({of.tokens, of.choices, of.hidden})
      .sum(1);
}

/// Gives parameters of one shape gradients that lie in one buffer, as a unit's do.
void bind_gradients(Tensors& parameters, const Tensor& buffer) {
  const Tensors parts = buffer.split(parameters.front().size(0));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    parameters[i].requires_grad_().mutable_grad() = parts[i];
  }
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

  Tensors leaves, buffers;
  for (const Tensor& input : in) {
    leaves.push_back(input.detach().clone());
    buffers.push_back(torch::ones_like(leaves.back()));
  }
  ExpertWeights weights = weights_of(of, leaves);
  bind_gradients(weights.gate_up.weights, buffers[kGateUp]);
  bind_gradients(weights.down.weights, buffers[kDown]);
  if (of.biases) {
    bind_gradients(weights.gate_up.biases, buffers[kGateUpBias]);
    bind_gradients(weights.down.biases, buffers[kDownBias]);
  }
  Routing routing = route(scores_of(of).to(device, torch::kFloat32), of.choices, true);
  routing.weights = leaves[kChoices];
  apply_experts(leaves[kX], routing, weights, gate_of(of), by).sum().backward();
  for (std::size_t i = kGateUp; i < in.size(); ++i) {
    check_close(buffers[i], (in[i].grad() + 1.0).to(torch::kFloat64).cpu(), dtype);
  }
}

}  // namespace athanor::test
