// SPDX-License-Identifier: Apache-2.0
// Layers as weights and what they do: LibTorch's operators, or fused ones where a device has them.
#pragma once

#include <torch/types.h>

#include <string>

namespace athanor {

struct Linear {
  enum class Layout { OutputsFirst, InputsFirst };
  torch::Tensor weight;  ///< [out, in] or [in, out]
  torch::Tensor bias;    ///< [out] or undefined
  Layout layout = Layout::OutputsFirst;

  [[nodiscard]] torch::Tensor operator()(const torch::Tensor& x) const;
};

struct LayerNorm {
  torch::Tensor weight, bias;
  double epsilon = 1e-5;
  [[nodiscard]] torch::Tensor operator()(const torch::Tensor& x) const;
};

struct RmsNorm {
  torch::Tensor weight;
  double epsilon = 1e-5;
  [[nodiscard]] torch::Tensor operator()(const torch::Tensor& x) const;
};

/// Applies gelu_new (tanh form), gelu, relu or silu. Throws Error for another name.
[[nodiscard]] torch::Tensor activate(const torch::Tensor& x, const std::string& activation);

}  // namespace athanor
