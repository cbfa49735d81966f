// SPDX-License-Identifier: Apache-2.0
// The fused llama parts' own gradients, on the host: with operators that are LibTorch's, what is
// left to test is how they are put together.
#include "executor/layers/fused_operators.hpp"
#include "executor/layers/side_by_side.hpp"
#include "tests/units/llama_cases.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace athanor {
namespace {

constexpr test::FusedShape kShape{2, 5, 24};

TEST_CASE("the fused parts of a llama block are LibTorch's operators one after another") {
  REQUIRE(fused::available(torch::zeros({kShape.width})));
  const bool bias = GENERATE(false, true);
  test::check_norm_and_project(kShape, bias, torch::kCPU, torch::kFloat32);
  test::check_add_projection(kShape, bias, torch::kCPU, torch::kFloat32);
  const auto* const activation = GENERATE("gelu_new", "gelu", "relu", "silu");
  test::check_gated_projection(kShape, activation, bias, torch::kCPU, torch::kFloat32);
}

TEST_CASE("rotation and attention are LibTorch's operators one after another") {
  const bool norms = GENERATE(false, true);
  const auto of =
      GENERATE(test::AttentionCase{2, 7, 4, 2, 16}, test::AttentionCase{1, 9, 2, 2, 32, 4},
               test::AttentionCase{2, 6, 4, 1, 16, 0, {{0, 2, 5}, {0}}},
               test::AttentionCase{1, 8, 4, 2, 16, 2, {{0, 5}}});
  test::check_attend(of, norms, torch::kCPU, torch::kFloat32);
  test::check_rotation(of, torch::kCPU, torch::kFloat32);
  test::check_norm_and_rotation(of, torch::kCPU, torch::kFloat32);
}

TEST_CASE("sinks join what a kernel has made of queries, keys and values") {
  const auto of = GENERATE(
      test::AttentionCase{
          .batch = 2, .sequence = 7, .query_heads = 4, .key_heads = 2, .head_dim = 16},
      test::AttentionCase{
          .batch = 1, .sequence = 9, .query_heads = 2, .key_heads = 2, .head_dim = 32, .window = 4},
      test::AttentionCase{.batch = 2,
                          .sequence = 8,
                          .query_heads = 4,
                          .key_heads = 1,
                          .head_dim = 16,
                          .window = 3,
                          .document_starts = {{0, 2, 5}, {0}}});
  test::AttentionCase with_sinks = of;
  with_sinks.sinks = true;
  test::check_attend(with_sinks, /*norms=*/false, torch::kCPU, torch::kFloat32);
}

/// Whether sums in fp32 agree, in whichever order they are made.
bool are_close(const torch::Tensor& a, const torch::Tensor& b) {
  return torch::allclose(a, b, /*rtol=*/1e-4, /*atol=*/1e-5);
}

/// Weights of 16 and 8 rows that lie one after another with `gap` elements between them.
Tensors weights_with_gap(std::int64_t gap) {
  const torch::Tensor storage = torch::randn({24 * 8 + gap});
  return {storage.slice(0, 0, 128).view({16, 8}), storage.slice(0, 128 + gap).view({8, 8})};
}

TEST_CASE("layers side by side are their products wherever their weights lie") {
  const Tensors weights = weights_with_gap(GENERATE(0, 8));
  const torch::Tensor rows = torch::randn({5, 8}), gradient = torch::randn({5, 24});
  const torch::Tensor whole = torch::cat(weights);
  CHECK(are_close(products({weights, {}}, rows), rows.mm(whole.t())));
  CHECK(are_close(row_gradient(weights, gradient), gradient.mm(whole)));
}

TEST_CASE("gradients of layers side by side go where they are bound") {
  const Tensors weights = weights_with_gap(0), gradients = weights_with_gap(GENERATE(0, 8));
  const torch::Tensor rows = torch::randn({5, 8}), gradient = torch::randn({5, 24});
  const torch::Tensor expected = gradient.t().mm(rows);
  const Tensors returned = weight_gradients(weights, gradient, rows);
  CHECK(are_close(torch::cat(returned), expected));
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i].mutable_grad() = gradients[i];
  const torch::Tensor before = torch::cat(gradients);
  for (const torch::Tensor& each : weight_gradients(weights, gradient, rows)) {
    CHECK_FALSE(each.defined());
  }
  CHECK(are_close(torch::cat(gradients), before + expected));
}

TEST_CASE("one bound gradient of layers side by side does not unbind the others") {
  const Tensors weights = weights_with_gap(0);
  const torch::Tensor rows = torch::randn({5, 8}), gradient = torch::randn({5, 24});
  weights[1].mutable_grad() = torch::zeros({8, 8});
  const Tensors returned = weight_gradients(weights, gradient, rows);
  const torch::Tensor expected = gradient.t().mm(rows);
  CHECK(are_close(returned[0], expected.slice(0, 0, 16)));
  CHECK_FALSE(returned[1].defined());
  CHECK(are_close(weights[1].grad(), expected.slice(0, 16)));
}

}  // namespace
}  // namespace athanor
