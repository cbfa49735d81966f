// SPDX-License-Identifier: Apache-2.0
// Operators of attention with rotary positions, which the CUDA plugin implements (see
// fused_operators.hpp). Tensors of heads are [batch, sequence, heads, head_dim]. The elements of a
// head lie side by side, and gaps may lie between heads and between tokens.
#pragma once

#include "executor/layers/rotary_positions.hpp"

#include <torch/types.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace athanor::fused {

/// Shape of a model's attention.
struct HeadShape {
  std::int64_t query_heads = 0, key_heads = 0;  ///< key_heads divides query_heads
  std::int64_t head_dim = 0;
};

/// Whether the operators take heads of this shape of the type and on the device of `x`. Their
/// norms too, if `with_norms`.
[[nodiscard]] bool attention_available(const torch::Tensor& x, const HeadShape& heads,
                                       bool with_norms);

/// Positions of a batch's tokens, and the angles that they stand for.
struct RotaryPositions {
  RotaryFrequencies angles;
  /// int64 [batch, sequence]; undefined: 0 .. sequence - 1 in every sequence
  torch::Tensor positions;
};

/// Rotates the first `heads` heads of x [batch, sequence, width] in place; `back` by the negative
/// angles, which is the gradient.
void rotate_in_place(torch::Tensor& x, std::int64_t heads, const RotaryPositions& rotary,
                     bool back);

/// RMS norms of single heads (Qwen3): weights [head_dim].
struct HeadNorms {
  torch::Tensor query_weight, key_weight;
  double epsilon = 0;
};

/// Returns the normalized and rotated queries and keys of `packed` [batch, sequence, (query_heads +
/// 2 key_heads) * head_dim], side by side.
[[nodiscard]] torch::Tensor norm_and_rotate(const torch::Tensor& packed, const HeadShape& heads,
                                            const HeadNorms& norms, const RotaryPositions& rotary);

/// Turns the gradient of normalized and rotated heads, which `gradient` has in the place of queries
/// and keys, into that of `packed`, in place. Returns the gradients of the norms' weights.
struct HeadNormGradients {
  torch::Tensor query_weight, key_weight;
};
[[nodiscard]] HeadNormGradients norm_and_rotate_backward(torch::Tensor& gradient,
                                                         const torch::Tensor& packed,
                                                         const HeadShape& heads,
                                                         const HeadNorms& norms,
                                                         const RotaryPositions& rotary);

/// Which tokens a query sees: those before it and itself, at most `window` of them (0: all), of its
/// own document. And the memory that backward may take to see them fast.
struct Sight {
  std::int64_t window = 0;
  /// Ends of documents among all tokens of the batch, from 0 on; empty: sequences are documents.
  std::vector<std::int64_t> document_ends;
  /// Bytes of workspace that backward may take. One that is fast and gives the same bits takes
  /// much.
  std::int64_t most_workspace = 0;
};

/// Attention's result [batch, sequence, query_heads, head_dim] and the logarithms of its sums of
/// exponentials, in fp32, as backward wants them.
struct Attended {
  torch::Tensor out, log_sums;
};
[[nodiscard]] Attended attention(const torch::Tensor& query, const torch::Tensor& key,
                                 const torch::Tensor& value, const Sight& sight);

/// Tensors of the inputs' shapes, which take the gradients of attention's inputs.
struct AttentionGradients {
  torch::Tensor query, key, value;
};
void attention_backward(const torch::Tensor& grad_out, const torch::Tensor& query,
                        const torch::Tensor& key, const torch::Tensor& value,
                        const Attended& attended, const Sight& sight,
                        const AttentionGradients& gradients);

}  // namespace athanor::fused
