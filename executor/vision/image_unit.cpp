// SPDX-License-Identifier: Apache-2.0
#include "executor/vision/image_unit.hpp"

#include "executor/layers/attention.hpp"

namespace athanor {

LayerNorm ImageUnit::norm(const std::string& name) {
  return {parameter(name + ".weight", {config_.hidden_size}),
          parameter(name + ".bias", {config_.hidden_size}), config_.norm_epsilon};
}

Linear ImageUnit::square(const std::string& name, bool bias) {
  return linear(name, config_.hidden_size, config_.hidden_size, bias);
}

ImageAttention ImageUnit::attention() {
  const std::string prefix = "attention.attention.";
  return {square(prefix + "query", config_.qkv_bias), square(prefix + "key", config_.qkv_bias),
          square(prefix + "value", config_.qkv_bias), config_.num_heads};
}

torch::Tensor ImageAttention::operator()(const torch::Tensor& x) const {
  return merge_heads(at::scaled_dot_product_attention(
      split_heads(query(x), heads), split_heads(key(x), heads), split_heads(value(x), heads)));
}

std::string base_prefix(const ImageClassifierConfig& config) { return config.model_type + "."; }

}  // namespace athanor
