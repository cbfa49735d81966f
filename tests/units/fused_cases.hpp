// SPDX-License-Identifier: Apache-2.0
// Compares the fused parts of a block with LibTorch's operators in fp64, on every device that
// implements the operators of executor/layers/fused_operators.hpp.
#pragma once

#include "tests/units/compare_parts.hpp"

#include <torch/types.h>

#include <cstdint>
#include <string>

namespace athanor::test {

/// Each check compares outputs and the gradients of all inputs with fp64, and with themselves in a
/// second run, bit for bit. `dtype` is fp32 or bf16.
void check_branch(const FusedShape& shape, torch::Device device, torch::ScalarType dtype);
void check_add_and_branch(const FusedShape& shape, torch::Device device, torch::ScalarType dtype);
/// Checks products of matrices that lie row after row, column after column, with gaps, at odd
/// addresses and in no order that a product could read.
void check_product(torch::Device device, torch::ScalarType dtype);
/// Checks that a bias far below the rounding of its sum does not decide how the sum is rounded.
void check_ties(torch::Device device);
void check_linear(const FusedShape& shape, torch::Device device, torch::ScalarType dtype);
void check_packed_attention(const FusedShape& shape, std::int64_t heads, torch::Device device,
                            torch::ScalarType dtype);
/// Checks an activation without a product before it, so that no rounding can cross a kink.
void check_activation(const FusedShape& shape, const std::string& activation, torch::Device device,
                      torch::ScalarType dtype);
void check_loss(const FusedShape& shape, std::int64_t vocabulary, torch::Device device,
                torch::ScalarType dtype);

/// Checks that a target outside the vocabulary and a logit that is not a number make the loss NaN.
void check_loss_is_nan(torch::Device device);

}  // namespace athanor::test
