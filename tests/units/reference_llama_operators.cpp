// SPDX-License-Identifier: Apache-2.0
// Defines the llama family's fused operators on the host by LibTorch's operators, as
// reference_operators.cpp does for the others.
#include "executor/layers/plain_layers.hpp"
#include "executor/layers/rotary_positions.hpp"

#include <torch/autograd.h>
#include <torch/library.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <limits>
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

/// Scores of all keys [batch, heads, sequence, sequence], and minus infinity for those that a query
/// does not see: later ones, and those before its window or its document.
Tensor scores_of(const Tensor& query, const Tensor& key, std::int64_t window,
                 at::IntArrayRef document_ends) {
  const std::int64_t batch = query.size(0), sequence = query.size(1);
  const Tensor place = torch::arange(sequence);
  const Tensor distance = place.unsqueeze(1) - place;
  Tensor seen = distance >= 0;
  if (window > 0) seen = seen.logical_and(distance < window);
  if (!document_ends.empty()) {
    const Tensor document =
        at::searchsorted(torch::tensor(document_ends), torch::arange(batch * sequence), false, true)
            .view({batch, 1, sequence});
    seen = seen.logical_and(document.unsqueeze(3) == document.unsqueeze(2));
  }
  const Tensor keys = key.repeat_interleave(query.size(2) / key.size(2), 2);
  const Tensor scores =
      at::einsum("bqhd,bkhd->bhqk", {query, keys}) / std::sqrt(static_cast<double>(query.size(3)));
  return scores.masked_fill(seen.logical_not(), -std::numeric_limits<double>::infinity());
}

/// Sums as kernels give them: of documents, [heads, tokens].
std::tuple<Tensor, Tensor> attention(const Tensor& query, const Tensor& key, const Tensor& value,
                                     std::int64_t window, at::IntArrayRef document_ends,
                                     std::int64_t /*most_workspace*/) {
  const Tensor scores = scores_of(query, key, window, document_ends);
  const Tensor values = value.repeat_interleave(query.size(2) / key.size(2), 2);
  const Tensor out = at::einsum("bhqk,bkhd->bqhd", {scores.softmax(-1), values}).contiguous();
  const Tensor log_sums = scores.logsumexp(-1);
  if (document_ends.empty()) return {out, log_sums.contiguous()};
  return {out, log_sums.transpose(0, 1).flatten(1).contiguous()};
}

/// As kernels do, it makes shares of `log_sums`, and sums of products of `out`.
void attention_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key,
                        const Tensor& value, const Tensor& out, const Tensor& log_sums,
                        std::int64_t window, at::IntArrayRef document_ends,
                        std::int64_t /*most_workspace*/, Tensor& grad_query, Tensor& grad_key,
                        Tensor& grad_value) {
  const std::int64_t batch = query.size(0), sequence = query.size(1), heads = query.size(2);
  const std::int64_t group = heads / key.size(2);
  const Tensor sums =
      document_ends.empty() ? log_sums : log_sums.view({heads, batch, sequence}).transpose(0, 1);
  const Tensor shares = (scores_of(query, key, window, document_ends) - sums.unsqueeze(-1)).exp();
  const Tensor products = (grad_out * out).sum(-1).transpose(1, 2).unsqueeze(-1);
  const Tensor of_shares =
      at::einsum("bqhd,bkhd->bhqk", {grad_out, value.repeat_interleave(group, 2)});
  const Tensor of_scores =
      shares * (of_shares - products) / std::sqrt(static_cast<double>(query.size(3)));
  const auto of_group = [&](const Tensor& of_heads) {
    return of_heads.unflatten(2, {-1, group}).sum(3);
  };
  grad_query.copy_(at::einsum("bhqk,bkhd->bqhd", {of_scores, key.repeat_interleave(group, 2)}));
  grad_key.copy_(of_group(at::einsum("bhqk,bqhd->bkhd", {of_scores, query})));
  grad_value.copy_(of_group(at::einsum("bhqk,bqhd->bkhd", {shares, grad_out})));
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
