// SPDX-License-Identifier: Apache-2.0
// Defines the llama family's fused operators on the host by LibTorch's operators, as
// reference_operators.cpp does for the others.
#include "executor/layers/attention.hpp"
#include "executor/layers/plain_layers.hpp"
#include "executor/layers/rotary_positions.hpp"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace {

using torch::Tensor;
using MaybeTensor = std::optional<Tensor>;

void product_into(Tensor& result, const Tensor& left, const Tensor& right, const MaybeTensor& bias,
                  const MaybeTensor& addend) {
  Tensor sum = at::mm(left, right);
  if (bias) sum = sum + *bias;
  result.copy_(addend ? sum + *addend : sum);
}

std::tuple<Tensor, Tensor> rms_norm(const Tensor& x, const Tensor& weight, double epsilon) {
  const Tensor inverse = at::rsqrt(x.square().mean(-1, /*keepdim=*/true) + epsilon);
  return {x * inverse * weight, inverse.flatten()};
}

/// The gradients of `outputs`, made of the inputs, under given gradients.
template <typename Body>
std::vector<Tensor> gradients_of(const std::vector<Tensor>& inputs, const Body& outputs,
                                 const std::vector<Tensor>& gradients) {
  // Callers are below autograd.
  const c10::impl::ForceDispatchKeyGuard with_autograd(c10::default_included_set,
                                                       c10::default_excluded_set);
  const at::AutoGradMode with_gradients(true);
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.detach().clone().requires_grad_());
  return torch::autograd::grad(outputs(leaves), leaves, gradients);
}

std::tuple<Tensor, Tensor> rms_norm_backward(const Tensor& grad_normal,
                                             const MaybeTensor& grad_residual, const Tensor& x,
                                             const Tensor& inverse_rms, const Tensor& weight) {
  const Tensor scale = inverse_rms.view({-1, 1});
  const Tensor normal = x.flatten(0, -2) * scale;
  const Tensor rows = grad_normal.flatten(0, -2);
  const Tensor scaled = rows * weight;
  const Tensor across = scaled - normal * (scaled * normal).mean(-1, /*keepdim=*/true);
  const Tensor grad_x = (across * scale).view_as(x);
  return {grad_residual ? grad_x + *grad_residual : grad_x, (rows * normal).sum(0)};
}

Tensor gate(const Tensor& packed, c10::string_view activation) {
  const std::vector<Tensor> parts = packed.chunk(2, -1);
  return athanor::activate(parts[0], std::string(activation)) * parts[1];
}

std::tuple<Tensor, Tensor> gate_backward(const Tensor& grad_y, const Tensor& packed,
                                         c10::string_view activation) {
  const std::vector<Tensor> gradients = gradients_of(
      {packed}, [&](const std::vector<Tensor>& in) { return std::vector{gate(in[0], activation)}; },
      {grad_y});
  return {gradients[0], gate(packed, activation)};
}

/// Rotates the heads x [batch, sequence, heads, head_dim].
Tensor rotated(const Tensor& x, at::ArrayRef<double> frequencies, double scale,
               const MaybeTensor& positions, bool back) {
  athanor::RotaryFrequencies angles{{}, scale};
  for (const double each : frequencies) angles.frequencies.push_back(static_cast<float>(each));
  std::int64_t last = x.size(1);
  if (positions) last = std::max(last, positions->max().item<std::int64_t>() + 1);
  athanor::RotaryTable table = athanor::rotary_table(last, angles, x);
  if (back) table.sines = -table.sines;
  if (positions) {
    table = {at::embedding(table.cosines, *positions).unsqueeze(1),
             at::embedding(table.sines, *positions).unsqueeze(1)};
  }
  return athanor::rotate(x.transpose(1, 2), table).transpose(1, 2);
}

Tensor heads_of(const Tensor& x, std::int64_t first, std::int64_t heads, std::int64_t head_dim) {
  return x.slice(2, first * head_dim, (first + heads) * head_dim).unflatten(2, {heads, head_dim});
}

void rotate_in_place(Tensor& x, std::int64_t heads, at::ArrayRef<double> frequencies, double scale,
                     const MaybeTensor& positions, bool back) {
  const auto head_dim = 2 * static_cast<std::int64_t>(frequencies.size());
  const Tensor part = heads_of(x, 0, heads, head_dim);
  part.copy_(rotated(part.clone(), frequencies, scale, positions, back));
}

Tensor norm_and_rotate(const Tensor& packed, std::int64_t query_heads, std::int64_t key_heads,
                       const Tensor& query_weight, const Tensor& key_weight, double epsilon,
                       at::ArrayRef<double> frequencies, double scale,
                       const MaybeTensor& positions) {
  const std::int64_t dim = query_weight.size(0);
  const auto normal = [&](const Tensor& x, const Tensor& weight) {
    return std::get<0>(rms_norm(x, weight, epsilon));
  };
  const Tensor query = normal(heads_of(packed, 0, query_heads, dim), query_weight);
  const Tensor key = normal(heads_of(packed, query_heads, key_heads, dim), key_weight);
  return rotated(torch::cat({query, key}, 2), frequencies, scale, positions, false).flatten(2);
}

std::tuple<Tensor, Tensor> norm_and_rotate_backward(
    Tensor& gradient, const Tensor& packed, std::int64_t query_heads, std::int64_t key_heads,
    const Tensor& query_weight, const Tensor& key_weight, double epsilon,
    at::ArrayRef<double> frequencies, double scale, const MaybeTensor& positions) {
  const std::int64_t width = (query_heads + key_heads) * query_weight.size(0);
  const std::vector<Tensor> found =
      gradients_of({packed.slice(2, 0, width), query_weight, key_weight},
                   [&](const std::vector<Tensor>& in) {
                     return std::vector{norm_and_rotate(in[0], query_heads, key_heads, in[1], in[2],
                                                        epsilon, frequencies, scale, positions)};
                   },
                   {gradient.slice(2, 0, width)});
  gradient.slice(2, 0, width).copy_(found[0]);
  return {found[1], found[2]};
}

/// Attention by packed documents, each a sequence of its own.
Tensor attended(const Tensor& query, const Tensor& key, const Tensor& value, std::int64_t window,
                at::IntArrayRef document_ends) {
  const auto heads_first = [](const Tensor& x) { return x.transpose(1, 2); };
  if (document_ends.empty()) {
    return athanor::causal_attention(heads_first(query), heads_first(key), heads_first(value),
                                     std::nullopt, window)
        .transpose(1, 2);
  }
  std::vector<Tensor> parts;
  for (std::size_t i = 1; i < document_ends.size(); ++i) {
    const auto part = [&](const Tensor& x) {
      return heads_first(
          x.flatten(0, 1).slice(0, document_ends[i - 1], document_ends[i]).unsqueeze(0));
    };
    parts.push_back(
        athanor::causal_attention(part(query), part(key), part(value), std::nullopt, window)
            .transpose(1, 2)
            .squeeze(0));
  }
  return torch::cat(parts, 0).view_as(query);
}

std::tuple<Tensor, Tensor> attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                     std::int64_t window, at::IntArrayRef document_ends,
                                     std::int64_t /*most_workspace*/) {
  return {attended(query, key, value, window, document_ends).contiguous(),
          torch::empty({0}, torch::kFloat32)};
}

void attention_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key,
                        const Tensor& value, const Tensor& /*out*/, const Tensor& /*log_sums*/,
                        std::int64_t window, at::IntArrayRef document_ends,
                        std::int64_t /*most_workspace*/, Tensor& grad_query, Tensor& grad_key,
                        Tensor& grad_value) {
  const std::vector<Tensor> found =
      gradients_of({query, key, value},
                   [&](const std::vector<Tensor>& in) {
                     return std::vector{attended(in[0], in[1], in[2], window, document_ends)};
                   },
                   {grad_out});
  grad_query.copy_(found[0]);
  grad_key.copy_(found[1]);
  grad_value.copy_(found[2]);
}

}  // namespace

TORCH_LIBRARY_IMPL(athanor, CPU, library) {
  library.impl("product_into_", product_into);
  library.impl("rms_norm", rms_norm);
  library.impl("rms_norm_backward", rms_norm_backward);
  library.impl("gate", gate);
  library.impl("gate_backward", gate_backward);
  library.impl("rotate_", rotate_in_place);
  library.impl("norm_and_rotate", norm_and_rotate);
  library.impl("norm_and_rotate_backward_", norm_and_rotate_backward);
  library.impl("attention", attention);
  library.impl("attention_backward", attention_backward);
}
