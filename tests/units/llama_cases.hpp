// SPDX-License-Identifier: Apache-2.0
// Compares the parts of a llama block with LibTorch's operators in fp64, on every device that
// implements the operators of executor/layers/attention_operators.hpp.
#pragma once

#include "tests/units/compare_parts.hpp"

#include <torch/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::test {

/// Norm and the products of three layers of widths 2, 1 and 1 times `shape.width`.
void check_norm_and_project(const FusedShape& shape, bool bias, torch::Device device,
                            torch::ScalarType dtype);
void check_add_projection(const FusedShape& shape, bool bias, torch::Device device,
                          torch::ScalarType dtype);
/// The gated product of 2 * `shape.width` columns.
void check_gated_projection(const FusedShape& shape, const std::string& activation, bool bias,
                            torch::Device device, torch::ScalarType dtype);

struct AttentionCase {
  std::int64_t batch, sequence, query_heads, key_heads, head_dim;
  std::int64_t window = 0;
  std::vector<std::vector<std::int64_t>> document_starts = {};
  std::int64_t most_workspace = std::int64_t{1} << 30;
  bool sinks = false;
};
/// Rotation and attention; with `norms`, those of single heads, too.
void check_attend(const AttentionCase& of, bool norms, torch::Device device,
                  torch::ScalarType dtype);

/// Attention with sinks by LibTorch's operators.
void check_sink_attention(const AttentionCase& of, torch::Device device, torch::ScalarType dtype);

/// Rotation alone, without attention, whose kernels take 16-bit types only.
void check_rotation(const AttentionCase& of, torch::Device device, torch::ScalarType dtype);
/// Norms of heads with their rotation, and their gradients.
void check_norm_and_rotation(const AttentionCase& of, torch::Device device,
                             torch::ScalarType dtype);

}  // namespace athanor::test
