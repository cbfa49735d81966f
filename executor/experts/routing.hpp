// SPDX-License-Identifier: Apache-2.0
// The router of a mixture of experts: which experts a token uses, with which weights.
#pragma once

#include <torch/types.h>

#include <cstdint>

namespace athanor {

/// Rows are (token, choice) pairs sorted by expert; pairs of one expert keep the tokens' order. The
/// order follows from the choices alone. All sizes follow from the number of tokens, however they
/// are routed, and no number leaves the device.
struct Routing {
  torch::Tensor weights;        ///< [tokens, choices]: of a token's experts; has a gradient
  torch::Tensor probabilities;  ///< fp32 [tokens, experts]; has a gradient
  torch::Tensor pairs;          ///< int64 [rows]: token * choices + choice
  torch::Tensor rows;           ///< int64 [rows]: the row of each pair, the inverse of `pairs`
  torch::Tensor ends;           ///< int32 [experts]: where each expert's rows end
};

/// Routes tokens by the router's scores [tokens, experts]: the `per_token` most likely experts, by
/// the softmax over all. `normalized` scales a token's weights to a sum of 1.
[[nodiscard]] Routing route(const torch::Tensor& scores, std::int64_t per_token, bool normalized);

}  // namespace athanor
