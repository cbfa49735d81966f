// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/attention_operators.hpp"

#include "executor/layers/dispatched_operator.hpp"
#include "executor/layers/fused_operators.hpp"

#include <bit>

namespace athanor::fused {
namespace {

using torch::Tensor;
using MaybeTensor = std::optional<Tensor>;

constexpr std::int64_t kPairsAtOnce = 8;
constexpr std::int64_t kMostHeadDim = 256;

/// Schemas know floats as double alone.
std::vector<double> doubles(const std::vector<float>& values) {
  return {values.begin(), values.end()};
}

MaybeTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

}  // namespace

bool attention_available(const Tensor& x, const HeadShape& heads, bool with_norms) {
  // Attention's kernels take 16-bit types alone.
  if (!available(x) || (x.is_cuda() && x.scalar_type() != torch::kBFloat16)) return false;
  if (heads.head_dim % (2 * kPairsAtOnce) != 0 || heads.head_dim > kMostHeadDim) return false;
  return !with_norms ||
         std::has_single_bit(static_cast<std::uint64_t>(heads.head_dim / (2 * kPairsAtOnce)));
}

void rotate_in_place(Tensor& x, std::int64_t heads, const RotaryPositions& rotary, bool back) {
  static const Operator<void(Tensor&, std::int64_t, at::ArrayRef<double>, double,
                             const MaybeTensor&, bool)>
      call("athanor::rotate_");
  call(x, heads, doubles(rotary.angles.frequencies), rotary.angles.scale, maybe(rotary.positions),
       back);
}

Tensor norm_and_rotate(const Tensor& packed, const HeadShape& heads, const HeadNorms& norms,
                       const RotaryPositions& rotary) {
  static const Operator<Tensor(const Tensor&, std::int64_t, std::int64_t, const Tensor&,
                               const Tensor&, double, at::ArrayRef<double>, double,
                               const MaybeTensor&)>
      call("athanor::norm_and_rotate");
  return call(packed, heads.query_heads, heads.key_heads, norms.query_weight, norms.key_weight,
              norms.epsilon, doubles(rotary.angles.frequencies), rotary.angles.scale,
              maybe(rotary.positions));
}

HeadNormGradients norm_and_rotate_backward(Tensor& gradient, const Tensor& packed,
                                           const HeadShape& heads, const HeadNorms& norms,
                                           const RotaryPositions& rotary) {
  static const Operator<std::tuple<Tensor, Tensor>(
      Tensor&, const Tensor&, std::int64_t, std::int64_t, const Tensor&, const Tensor&, double,
      at::ArrayRef<double>, double, const MaybeTensor&)>
      call("athanor::norm_and_rotate_backward_");
  auto [query_weight, key_weight] =
      call(gradient, packed, heads.query_heads, heads.key_heads, norms.query_weight,
           norms.key_weight, norms.epsilon, doubles(rotary.angles.frequencies), rotary.angles.scale,
           maybe(rotary.positions));
  return {query_weight, key_weight};
}

Attended attention(const Tensor& query, const Tensor& key, const Tensor& value,
                   const Sight& sight) {
  static const Operator<std::tuple<Tensor, Tensor>(const Tensor&, const Tensor&, const Tensor&,
                                                   std::int64_t, at::IntArrayRef, std::int64_t)>
      call("athanor::attention");
  auto [out, log_sums] =
      call(query, key, value, sight.window, sight.document_ends, sight.most_workspace);
  return {out, log_sums};
}

void attention_backward(const Tensor& grad_out, const Tensor& query, const Tensor& key,
                        const Tensor& value, const Attended& attended, const Sight& sight,
                        const AttentionGradients& gradients) {
  static const Operator<void(const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                             const Tensor&, const Tensor&, std::int64_t, at::IntArrayRef,
                             std::int64_t, Tensor&, Tensor&, Tensor&)>
      call("athanor::attention_backward");
  Tensor grad_query = gradients.query, grad_key = gradients.key, grad_value = gradients.value;
  call(grad_out, query, key, value, attended.out, attended.log_sums, sight.window,
       sight.document_ends, sight.most_workspace, grad_query, grad_key, grad_value);
}

}  // namespace athanor::fused

TORCH_LIBRARY_FRAGMENT(athanor, library) {
  library.def(
      "rotate_(Tensor(a!) x, int heads, float[] frequencies, float scale, Tensor? positions,"
      " bool back) -> ()");
  library.def(
      "norm_and_rotate(Tensor packed, int query_heads, int key_heads, Tensor query_weight,"
      " Tensor key_weight, float epsilon, float[] frequencies, float scale, Tensor? positions)"
      " -> Tensor");
  library.def(
      "norm_and_rotate_backward_(Tensor(a!) gradient, Tensor packed, int query_heads,"
      " int key_heads, Tensor query_weight, Tensor key_weight, float epsilon, float[] frequencies,"
      " float scale, Tensor? positions) -> (Tensor, Tensor)");
  library.def(
      "attention(Tensor query, Tensor key, Tensor value, int window, int[] document_ends,"
      " int most_workspace) -> (Tensor, Tensor)");
  library.def(
      "attention_backward(Tensor grad_out, Tensor query, Tensor key, Tensor value, Tensor out,"
      " Tensor log_sums, int window, int[] document_ends, int most_workspace,"
      " Tensor(a!) grad_query, Tensor(b!) grad_key, Tensor(c!) grad_value) -> ()");
}
