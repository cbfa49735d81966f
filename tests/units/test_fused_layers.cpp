// SPDX-License-Identifier: Apache-2.0
// The fused parts' own gradients, on the host: with operators that are LibTorch's, what is left to
// test is how they are put together.
#include "executor/layers/fused_layers.hpp"
#include "executor/layers/fused_operators.hpp"
#include "tests/units/fused_cases.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/autograd.h>

namespace athanor {
namespace {

constexpr test::FusedShape kShape{2, 5, 24};

TEST_CASE("the fused parts of a block are LibTorch's operators one after another") {
  REQUIRE(fused::available(torch::zeros({kShape.width})));
  test::check_branch(kShape, torch::kCPU, torch::kFloat32);
  test::check_add_and_branch(kShape, torch::kCPU, torch::kFloat32);
  test::check_product(torch::kCPU, torch::kFloat32);
  test::check_ties(torch::kCPU);
  test::check_linear(kShape, torch::kCPU, torch::kFloat32);
  test::check_loss(kShape, 61, torch::kCPU, torch::kFloat32);
  test::check_loss_is_nan(torch::kCPU);
  const auto* const activation = GENERATE("gelu_new", "gelu", "relu", "silu");
  test::check_activation(kShape, activation, torch::kCPU, torch::kFloat32);
}

TEST_CASE("a weight's gradient is added to its bound buffer by the product itself") {
  const auto layout = GENERATE(Linear::Layout::OutputsFirst, Linear::Layout::InputsFirst);
  const torch::Tensor weight = torch::randn({16, 24}).requires_grad_();
  const torch::Tensor x =
      torch::randn({2, 3, layout == Linear::Layout::InputsFirst ? 16 : 24}).requires_grad_();
  const Linear layer{weight, {}, layout};
  bool returned = false;
  weight.register_hook([&](const torch::Tensor& gradient) { returned = gradient.defined(); });
  const torch::Tensor expected =
      torch::autograd::grad({layer(x).square().sum()}, {weight}, {}).front();
  CHECK(returned);
  returned = false;
  weight.mutable_grad() = torch::ones_like(weight);
  void* const buffer = weight.grad().data_ptr();
  layer(x).square().sum().backward();
  CHECK_FALSE(returned);
  CHECK(weight.grad().data_ptr() == buffer);
  CHECK(torch::allclose(weight.grad(), expected + 1.0));
}

TEST_CASE("a width that the operators do not take goes the plain way") {
  CHECK_FALSE(fused::available(torch::zeros({12})));
  CHECK_FALSE(fused::available(torch::zeros({16}, torch::kFloat64)));
  test::check_add_and_branch({2, 3, 12}, torch::kCPU, torch::kFloat32);
  test::check_linear({2, 3, 5}, torch::kCPU, torch::kFloat32);
}

}  // namespace
}  // namespace athanor
