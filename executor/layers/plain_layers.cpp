// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/plain_layers.hpp"

#include "executor/layers/fused_layers.hpp"
#include "executor/layers/fused_operators.hpp"
#include "sim/base/errors.hpp"

namespace athanor {

torch::Tensor Linear::operator()(const torch::Tensor& x) const {
  if (fused::available(bias.defined() ? bias : weight)) {
    const torch::Tensor y = direct_product(*this, x);
    return bias.defined() ? with_bias_gradient(y, bias) : y;
  }
  if (layout == Layout::OutputsFirst) return at::linear(x, weight, bias);
  if (!bias.defined()) return at::matmul(x, weight);
  const torch::Tensor rows = at::addmm(bias, x.reshape({-1, weight.size(0)}), weight);
  return rows.view({x.size(0), x.size(1), weight.size(1)});
}

torch::Tensor LayerNorm::operator()(const torch::Tensor& x) const {
  return at::layer_norm(x, weight.sizes(), weight, bias, epsilon);
}

torch::Tensor RmsNorm::operator()(const torch::Tensor& x) const {
  return at::rms_norm(x, weight.sizes(), weight, epsilon);
}

torch::Tensor activate(const torch::Tensor& x, const std::string& activation) {
  if (activation == "gelu_new") return at::gelu(x, "tanh");
  if (activation == "gelu") return at::gelu(x, "none");
  if (activation == "relu") return at::relu(x);
  if (activation == "silu") return at::silu(x);
  throw Error("unknown activation '" + activation + "'");
}

}  // namespace athanor
