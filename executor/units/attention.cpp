// SPDX-License-Identifier: Apache-2.0
#include "executor/units/attention.hpp"

namespace athanor {

namespace {

/// Repeats every head `times` times: [b, h, s, d] -> [b, h * times, s, d].
torch::Tensor repeat_heads(const torch::Tensor& x, std::int64_t times) {
  if (times == 1) return x;
  return x.unsqueeze(2)
      .expand({x.size(0), x.size(1), times, x.size(2), x.size(3)})
      .reshape({x.size(0), x.size(1) * times, x.size(2), x.size(3)});
}

/// True where query i may see key j: i - window < j <= i.
torch::Tensor window_mask(std::int64_t sequence, std::int64_t window, torch::Device device) {
  const auto options = torch::TensorOptions().dtype(torch::kBool).device(device);
  return torch::ones({sequence, sequence}, options).tril().triu(1 - window);
}

}  // namespace

torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

torch::Tensor merge_heads(const torch::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, std::int64_t window) {
  const std::int64_t group = query.size(1) / key.size(1);
  const torch::Tensor keys = repeat_heads(key, group);
  const torch::Tensor values = repeat_heads(value, group);
  const std::int64_t sequence = query.size(2);
  if (window > 0 && window < sequence) {
    return at::scaled_dot_product_attention(query, keys, values,
                                            window_mask(sequence, window, query.device()));
  }
  return at::scaled_dot_product_attention(query, keys, values, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true);
}

RotaryTable rotary_table(std::int64_t sequence, std::int64_t head_dim, double theta,
                         const torch::Tensor& like) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(like.device());
  const torch::Tensor exponents =
      torch::arange(0, head_dim, 2, options) / static_cast<double>(head_dim);
  const torch::Tensor frequencies = torch::pow(theta, exponents).reciprocal();
  const torch::Tensor half = torch::outer(torch::arange(sequence, options), frequencies);
  const torch::Tensor angles = torch::cat({half, half}, 1);
  return {angles.cos().to(like.scalar_type()), angles.sin().to(like.scalar_type())};
}

torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table) {
  const std::vector<torch::Tensor> halves = x.chunk(2, -1);
  return x * table.cosines + torch::cat({-halves[1], halves[0]}, -1) * table.sines;
}

}  // namespace athanor
