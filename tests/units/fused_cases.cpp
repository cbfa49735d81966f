// SPDX-License-Identifier: Apache-2.0
#include "tests/units/fused_cases.hpp"

#include "executor/layers/fused_layers.hpp"
#include "executor/layers/fused_operators.hpp"
#include "executor/layers/head_loss.hpp"
#include "tests/units/compare_parts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace athanor::test {
namespace {

using torch::Tensor;

/// Compares a part with itself in fp64.
void compare_with_itself(const Part& part, const Tensors& inputs, torch::Device device,
                         torch::ScalarType dtype, double single = 1e-5) {
  compare(part, part, inputs, device, dtype, single);
}

Linear layer(const Tensor& weight, const Tensor& bias) {
  return {weight, bias, Linear::Layout::InputsFirst};
}

}  // namespace

void check_branch(const FusedShape& s, torch::Device device, torch::ScalarType dtype) {
  compare_with_itself(
      [](const Tensors& in) {
        const Branch result = branch(in[0], {in[1], in[2]});
        return Tensors{result.trunk, result.normal};
      },
      {tokens_of(s, 1), scale_of(s.width, 2), bias_of(s.width, 3)}, device, dtype);
}

void check_add_and_branch(const FusedShape& s, torch::Device device, torch::ScalarType dtype) {
  compare_with_itself(
      [](const Tensors& in) {
        const Branch result = add_and_branch(in[0], layer(in[1], in[2]), in[3], {in[4], in[5]});
        return Tensors{result.trunk, result.normal};
      },
      {tokens_of(s, 1), weight_of(s.width, s.width, 2), bias_of(s.width, 3), tokens_of(s, 4),
       scale_of(s.width, 5), bias_of(s.width, 6)},
      device, dtype);
}

void check_product(torch::Device device, torch::ScalarType dtype) {
  constexpr std::int64_t kRows = 48, kInner = 72, kColumns = 40;
  using Arrange = std::function<Tensor(const Tensor&)>;
  const std::vector<std::pair<std::string, Arrange>> arrangements{
      {"rows", [](const Tensor& t) { return t.contiguous(); }},
      {"columns", [](const Tensor& t) { return t.t().contiguous().t(); }},
      {"rows with gaps",
       [](const Tensor& t) { return torch::cat({t, t}, 1).slice(1, 0, t.size(1)); }},
      {"an odd address",
       [](const Tensor& t) {
         return torch::cat({t.new_zeros({1}), t.flatten()}).slice(0, 1).view(t.sizes());
       }},
      {"every other element", [](const Tensor& t) {
         return torch::stack({t, t}, 2).flatten(1).slice(1, 0, 2 * t.size(1), 2);
       }}};
  const Tensor left = normal({kRows, kInner}, 1).to(dtype);
  const Tensor right = normal({kInner, kColumns}, 2).to(dtype);
  const Tensor bias = normal({kColumns}, 3).to(dtype), sum = normal({kRows, kColumns}, 4).to(dtype);
  const Tensor expected = left.to(torch::kFloat64).mm(right.to(torch::kFloat64));
  for (const auto& [name, arrange] : arrangements) {
    for (const auto& [other_name, other_arrange] : arrangements) {
      CAPTURE(name, other_name, dtype);
      const Tensor a = arrange(left.to(device)), b = other_arrange(right.to(device));
      check_close(fused::product(a, b), expected, dtype);
      check_close(fused::product(a, b, bias.to(device)), expected + bias.to(torch::kFloat64),
                  dtype);
      Tensor added = arrange(sum.to(device).clone());
      fused::add_product(added, a, b);
      check_close(added, expected + sum.to(torch::kFloat64), dtype);
    }
  }
  const Tensor nothing = torch::empty({0, kInner}, right.options()).to(device);
  CHECK(fused::product(nothing, right.to(device)).sizes() == at::IntArrayRef({0, kColumns}));
}

void check_ties(torch::Device device) {
  constexpr std::int64_t kWidth = 8;
  const auto bf16 = torch::TensorOptions(device).dtype(torch::kBFloat16);
  const Tensor ones = torch::ones({2, 3, kWidth}, bf16), norm = torch::ones({kWidth}, bf16);
  // Half a unit in the last place of 1.
  const Tensor half = torch::full({2, 3, kWidth}, 0x1p-8, bf16);
  for (const double bias : {0.0, 1e-7, -1e-7}) {
    CAPTURE(bias);
    const Linear identity = layer(torch::eye(kWidth, bf16), torch::full({kWidth}, bias, bf16));
    CHECK(torch::equal(add_and_branch(ones, identity, half, {norm, norm}).trunk, ones));
    CHECK(torch::equal(ones + identity(half), ones));
  }
}

void check_linear(const FusedShape& s, torch::Device device, torch::ScalarType dtype) {
  compare_with_itself(
      [](const Tensors& in) {
        return Tensors{layer(in[1], in[2])(in[0]),
                       activated({in[1].t(), in[2]}, in[0], "gelu_new")};
      },
      {tokens_of(s, 1), weight_of(s.width, 3 * s.width, 2), bias_of(3 * s.width, 3)}, device,
      dtype);
}

void check_packed_attention(const FusedShape& s, std::int64_t heads, torch::Device device,
                            torch::ScalarType dtype) {
  compare_with_itself(
      [heads](const Tensors& in) {
        return Tensors{packed_attention(layer(in[1], in[2]), in[0], heads)};
      },
      {tokens_of(s, 1), weight_of(s.width, 3 * s.width, 2), bias_of(3 * s.width, 3)}, device,
      dtype);
}

void check_activation(const FusedShape& s, const std::string& activation, torch::Device device,
                      torch::ScalarType dtype) {
  const Tensor x = (3.0 * tokens_of(s, 1)).to(dtype);
  const Tensor gradient = tokens_of(s, 3).to(dtype);
  const Tensor input = x.to(torch::kFloat64).requires_grad_();
  const Tensor expected = activate(input, activation);
  const Tensor expected_gradient =
      torch::autograd::grad({expected}, {input}, {gradient.to(torch::kFloat64)}).front();

  const Tensor on_device = x.to(device);
  const auto [grad_x, sums] = fused::activate_backward(gradient.to(device), on_device, activation);
  CAPTURE(activation, dtype);
  check_close(fused::activate(on_device, activation), expected.detach(), dtype);
  check_close(grad_x, expected_gradient, dtype);
  check_close(sums, expected_gradient.flatten(0, 1).sum(0), dtype);
}

void check_loss(const FusedShape& s, std::int64_t vocabulary, torch::Device device,
                torch::ScalarType dtype) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(7);
  const Tensor targets =
      torch::randint(0, vocabulary, {s.batch, s.sequence}, generator, torch::kInt64);
  const Tensors inputs{tokens_of(s, 1), normal({vocabulary, s.width}, 2) * 0.1};
  compare_with_itself(
      [&](const Tensors& in) {
        return Tensors{next_token_loss(in[0], in[1], targets.to(in[0].device()))};
      },
      inputs, device, dtype,
      /*single=*/1e-5 * std::max(1.0, std::sqrt(static_cast<double>(vocabulary) / 4096)));
}

void check_loss_is_nan(torch::Device device) {
  constexpr std::int64_t kColumns = 16;
  for (const bool with_gradients : {false, true}) {
    Tensor logits = torch::zeros({3, kColumns}, torch::TensorOptions(device));
    logits[1][2] = std::numeric_limits<float>::quiet_NaN();
    const Tensor targets = torch::tensor({0, 0, 12}, torch::kInt64).to(device);
    const Tensor losses =
        fused::cross_entropy_in_place(logits, targets, /*vocabulary=*/12, with_gradients).cpu();
    CHECK(losses.isnan().equal(torch::tensor({false, true, true})));
  }
}

}  // namespace athanor::test
