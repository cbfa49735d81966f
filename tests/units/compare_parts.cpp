// SPDX-License-Identifier: Apache-2.0
#include "tests/units/compare_parts.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/autograd.h>

#include <cmath>

namespace athanor::test {

using torch::Tensor;

Tensor normal(at::IntArrayRef shape, std::uint64_t seed) {
  const auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  return torch::randn(shape, generator, torch::kFloat64);
}

namespace {

/// Returns the outputs, then the gradients of every input under given gradients of the outputs.
Tensors run(const Part& part, const Tensors& inputs, torch::Device device,
            torch::ScalarType dtype) {
  Tensors leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.to(device, dtype).requires_grad_());
  Tensors results = part(leaves);
  Tensors gradients;
  for (std::size_t i = 0; i < results.size(); ++i) {
    gradients.push_back(
        normal(results[i].sizes(), 100 + i).to(torch::kBFloat16).to(device, results[i].dtype()));
  }
  const Tensors leaf_gradients = torch::autograd::grad(results, leaves, gradients);
  results.insert(results.end(), leaf_gradients.begin(), leaf_gradients.end());
  return results;
}

}  // namespace

void check_close(const Tensor& actual, const Tensor& expected, torch::ScalarType dtype,
                 double single) {
  const bool coarse = dtype == torch::kBFloat16;
  const Tensor wanted = expected.abs();
  const Tensor error = (actual.detach().cpu().to(torch::kFloat64) - expected).abs();
  REQUIRE(actual.sizes() == expected.sizes());
  CHECK(error.max().item<double>() <= (coarse ? 0x1p-6 : single) * wanted.max().item<double>());
  CHECK(error.mean().item<double>() <= (coarse ? 0x1p-7 : single) * wanted.mean().item<double>());
}

void compare(const Part& part, const Part& plain, const Tensors& inputs, torch::Device device,
             torch::ScalarType dtype, double single) {
  Tensors rounded;
  for (const Tensor& input : inputs) rounded.push_back(input.to(dtype).to(torch::kFloat64));
  const Tensors expected = run(plain, rounded, torch::kCPU, torch::kFloat64);
  const Tensors actual = run(part, rounded, device, dtype);
  const Tensors again = run(part, rounded, device, dtype);
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    CAPTURE(i, dtype);
    check_close(actual[i], expected[i], dtype, single);
    CHECK(torch::equal(actual[i], again[i]));
  }
}

Tensor tokens_of(const FusedShape& s, std::uint64_t seed) {
  return normal({s.batch, s.sequence, s.width}, seed);
}

Tensor weight_of(std::int64_t in, std::int64_t out, std::uint64_t seed) {
  return normal({in, out}, seed) / std::sqrt(static_cast<double>(in));
}
Tensor bias_of(std::int64_t width, std::uint64_t seed) { return normal({width}, seed) * 0.1; }
Tensor scale_of(std::int64_t width, std::uint64_t seed) { return 1.0 + bias_of(width, seed); }

}  // namespace athanor::test
