// SPDX-License-Identifier: Apache-2.0
// Compares parts of a model, outputs and gradients of every input, with fp64 on the host.
#pragma once

#include <torch/types.h>

#include <cstdint>
#include <functional>
#include <vector>

namespace athanor::test {

using Tensors = std::vector<torch::Tensor>;
/// Outputs from inputs.
using Part = std::function<Tensors(const Tensors&)>;

/// Tokens and width of a case.
struct FusedShape {
  std::int64_t batch, sequence, width;
};

/// Returns standard normal numbers in fp64 that depend on the seed alone.
[[nodiscard]] torch::Tensor normal(at::IntArrayRef shape, std::uint64_t seed);
[[nodiscard]] torch::Tensor tokens_of(const FusedShape& shape, std::uint64_t seed);
/// Returns a weight [in, out] that keeps the size of activations.
[[nodiscard]] torch::Tensor weight_of(std::int64_t in, std::int64_t out, std::uint64_t seed);
[[nodiscard]] torch::Tensor bias_of(std::int64_t width, std::uint64_t seed);
[[nodiscard]] torch::Tensor scale_of(std::int64_t width, std::uint64_t seed);

/// Checks a result within its rounding. One rounding errs by at most half a unit in the last place
/// (2^-9 of the result in bf16). A part rounds a few times, and a product adds up earlier
/// roundings. `single` is the relative error that sums of very many products in fp32 may have.
void check_close(const torch::Tensor& actual, const torch::Tensor& expected,
                 torch::ScalarType dtype, double single = 1e-5);

/// Compares `part` on `device` in `dtype`, twice, with `plain` on the host in fp64.
void compare(const Part& part, const Part& plain, const Tensors& inputs, torch::Device device,
             torch::ScalarType dtype, double single = 1e-5);

}  // namespace athanor::test
