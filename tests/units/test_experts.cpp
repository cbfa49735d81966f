// SPDX-License-Identifier: Apache-2.0
// Experts, their router and the loss that keeps them equally busy; reference.py compares whole
// models.
#include "executor/backend/device_arena.hpp"
#include "executor/experts/balance_loss.hpp"
#include "executor/units/arena_scope.hpp"
#include "tests/units/expert_cases.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/autograd.h>

#include <cstdint>
#include <vector>

namespace athanor {
namespace {

using test::ExpertCase;
using torch::Tensor;

GroupedBy any_way() { return GENERATE(GroupedBy::Loop, GroupedBy::Kernel); }

ExpertCase any_case() {
  return GENERATE(
      ExpertCase{1, 16, 8, 3, 1}, ExpertCase{37, 32, 24, 5, 2}, ExpertCase{20, 16, 8, 40, 3},
      ExpertCase{9, 24, 16, 4, 4}, ExpertCase{30, 16, 8, 6, 2, /*skewed=*/true},
      ExpertCase{37, 32, 24, 5, 2, /*skewed=*/false, /*biases=*/true, /*gate_limit=*/0.5},
      ExpertCase{30, 16, 8, 6, 3, /*skewed=*/true, /*biases=*/true});
}

TEST_CASE("experts are what each token's experts make of it, however products are computed") {
  test::check_experts(any_case(), any_way(), torch::kCPU, torch::kFloat32);
}

TEST_CASE("gradients of experts are added to bound buffers") {
  test::check_bound_gradients(any_case(), any_way(), torch::kCPU, torch::kFloat32);
}

TEST_CASE("experts of odd widths, and on the host, are computed one by one") {
  const auto layers = [](std::int64_t out, std::int64_t in) {
    return ExpertLayers{torch::zeros({4 * out, in}).split(out), 2};
  };
  CHECK(grouped_by(torch::zeros({3, 16}), layers(8, 16)) == GroupedBy::Loop);
  test::check_experts({11, 12, 5, 3, 2}, GroupedBy::Loop, torch::kCPU, torch::kFloat32);
}

TEST_CASE("rows are sorted by expert, and those of one expert keep the tokens' order") {
  const Tensor scores = torch::tensor(
      {{0.0, 3.0, 1.0, -9.0}, {5.0, 1.0, 4.0, -9.0}, {0.0, 1.0, 2.0, -9.0}, {1.0, 0.0, 2.0, -9.0}});
  const Routing routing = route(scores, 2, /*normalized=*/false);
  // Choices, the best first: 1 2 | 0 2 | 2 1 | 2 0.
  CHECK(routing.pairs.equal(torch::tensor({2, 7, 0, 5, 1, 3, 4, 6}, torch::kInt64)));
  CHECK(routing.rows.equal(torch::tensor({2, 4, 0, 5, 6, 3, 7, 1}, torch::kInt64)));
  CHECK(routing.ends.equal(torch::tensor({2, 4, 8, 8}, torch::kInt32)));
  CHECK(routing.weights[0][0].item<float>() ==
        Catch::Approx(scores[0].softmax(0)[1].item<float>()));
  CHECK(route(scores, 2, /*normalized=*/true).weights.sum(1).allclose(torch::ones({4})));
}

TEST_CASE("the router's gradient is that of a softmax and a sum over what was chosen") {
  const bool normalized = GENERATE(false, true);
  const Tensor scores = torch::randn({9, 7}).requires_grad_();
  const Tensor factors = torch::randn({9, 3});
  const Tensor actual =
      torch::autograd::grad({(route(scores, 3, normalized).weights * factors).sum()}, {scores})[0];
  Tensor chosen = std::get<0>(scores.softmax(-1).topk(3));
  if (normalized) chosen = chosen / chosen.sum(-1, true);
  const Tensor expected = torch::autograd::grad({(chosen * factors).sum()}, {scores})[0];
  CHECK(actual.allclose(expected, 1e-5, 1e-7));
}

/// Bytes that each product of rows takes at most, where experts' rows end at `ends`.
std::vector<Bytes> peaks_of(const std::vector<std::int32_t>& ends, torch::ScalarType dtype) {
  const auto make = [&](std::int64_t rows, std::int64_t columns) {
    return torch::randn({rows, columns}).to(dtype);
  };
  const Tensor sorted_until = torch::tensor(ends, torch::kInt32);
  const Tensor rows = make(ends.back(), 64), gradient = make(ends.back(), 48);
  ExpertLayers layers{make(std::ssize(ends) * 48, 64).split(24), 2};
  for (Tensor& weight : layers.weights) weight.mutable_grad() = torch::zeros_like(weight);
  ExpertLayers with_biases = layers;
  with_biases.biases = make(1, std::ssize(ends) * 48).flatten().split(24);
  for (Tensor& bias : with_biases.biases) bias.mutable_grad() = torch::zeros_like(bias);
  DeviceArena arena;
  const ArenaScope scope(arena);
  std::vector<Bytes> peaks;
  const auto measure = [&](const auto& body) {
    arena.reset_peak();
    body();
    peaks.push_back(arena.peak());
  };
  const auto by = GroupedBy::Loop;
  measure([&] { (void)grouped_product(rows, layers, sorted_until, by); });
  measure([&] { (void)grouped_row_gradient(gradient, layers, sorted_until, by); });
  measure([&] { (void)grouped_weight_gradients(gradient, rows, layers, sorted_until, by); });
  measure([&] { (void)grouped_product(rows, with_biases, sorted_until, by); });
  measure([&] { (void)grouped_bias_gradients(gradient, with_biases, sorted_until, by); });
  measure([&] { (void)grouped_bias_products(gradient, with_biases, sorted_until); });
  return peaks;
}

TEST_CASE("the memory of experts does not depend on who uses them") {
  const auto dtype = GENERATE(torch::kFloat32, torch::kBFloat16);
  const std::vector<Bytes> even = peaks_of({32, 64, 96, 128}, dtype);
  CHECK(even[0] > 0);
  CHECK(peaks_of({0, 127, 127, 128}, dtype) == even);
  CHECK(peaks_of({1, 2, 3, 128}, dtype) == even);
}

TEST_CASE("equally busy experts have a balance loss of 1 for each choice, one busy expert more") {
  const auto dtype = GENERATE(torch::kFloat32, torch::kBFloat16);
  const auto loss_of = [&](const Tensor& scores) {
    Tensor sums = no_sums(scores.size(1), torch::zeros({1}, dtype));
    for (int block = 0; block < 3; ++block) sums = with_routing(sums, route(scores, 2, false));
    return balance_loss(sums, 3).item<float>();
  };
  CHECK(loss_of(torch::eye(8) + torch::eye(8).roll(1, 1)) == Catch::Approx(2).epsilon(1e-4));
  Tensor busy = torch::zeros({8, 8});
  busy.slice(1, 0, 2).fill_(30);
  CHECK(loss_of(busy) == Catch::Approx(8).epsilon(1e-4));
}

TEST_CASE("sums go from unit to unit beside the activation, and so do gradients") {
  const Tensor hidden = torch::randn({2, 3, 4}).requires_grad_();
  const Tensor sums = torch::randn({8}).requires_grad_();
  const Routed apart = parted(joined({hidden, sums}), torch::zeros({2, 3}), 4);
  CHECK(apart.hidden.equal(hidden));
  CHECK(apart.sums.equal(sums));
  (apart.hidden.sum() * 2 + apart.sums.sum() * 3).backward();
  CHECK(hidden.grad().equal(torch::full({2, 3, 4}, 2.0)));
  CHECK(sums.grad().equal(torch::full({8}, 3.0)));
}

}  // namespace
}  // namespace athanor
