// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/fused_layers.hpp"

#include "executor/layers/attention.hpp"
#include "executor/layers/fused_operators.hpp"

#include <torch/autograd.h>

#include <optional>
#include <vector>

namespace athanor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

class ProductFunction : public Function<ProductFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                        const std::optional<Tensor>& bias, bool in_out) {
    context->save_for_backward({x, weight});
    context->saved_data["in_out"] = in_out;
    const Tensor rows = x.flatten(0, -2);
    const Tensor matrix = in_out ? weight : weight.t();
    const Tensor y = fused::product(rows, matrix, bias);
    std::vector<std::int64_t> sizes = x.sizes().vec();
    sizes.back() = y.size(1);
    return y.view(sizes);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const bool in_out = context->saved_data["in_out"].toBool();
    const Tensor rows = saved[0].flatten(0, -2);
    const Tensor gradient = gradients[0].flatten(0, -2);
    const Tensor grad_x =
        fused::product(gradient, in_out ? saved[1].t() : saved[1]).view_as(saved[0]);
    const Tensor left = in_out ? rows.t() : gradient.t();
    const Tensor& right = in_out ? gradient : rows;
    Tensor bound = saved[1].is_leaf() ? saved[1].grad() : Tensor();
    if (!bound.defined()) return {grad_x, fused::product(left, right), Tensor(), Tensor()};
    fused::add_product(bound, left, right);
    return {grad_x, Tensor(), Tensor(), Tensor()};
  }
};

class BranchFunction : public Function<BranchFunction> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                               const Tensor& offset, double epsilon) {
    const fused::AddedNorm result = fused::add_layer_norm({}, x, weight, offset, epsilon);
    context->save_for_backward(
        {x, weight, result.statistics.mean, result.statistics.inverse_deviation});
    return {x, result.normal};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const fused::NormGradients result = fused::layer_norm_backward(
        gradients[1], gradients[0], saved[0], {saved[2], saved[3]}, saved[1], /*bias=*/false);
    return {result.x, result.weight, result.offset, Tensor()};
  }
};

class AddAndBranchFunction : public Function<AddAndBranchFunction> {
 public:
  /// `x` contains `bias` already, which is an argument for its gradient alone.
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& /*bias*/,
                               const Tensor& residual, const Tensor& weight, const Tensor& offset,
                               double epsilon) {
    const fused::AddedNorm result = fused::add_layer_norm(x, residual, weight, offset, epsilon);
    context->save_for_backward(
        {result.sum, weight, result.statistics.mean, result.statistics.inverse_deviation});
    return {result.sum, result.normal};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const fused::NormGradients result = fused::layer_norm_backward(
        gradients[1], gradients[0], saved[0], {saved[2], saved[3]}, saved[1], /*bias=*/true);
    return {result.x, result.bias, result.x, result.weight, result.offset, Tensor()};
  }
};

class BiasGradientFunction : public Function<BiasGradientFunction> {
 public:
  static Tensor forward(AutogradContext* /*context*/, const Tensor& x, const Tensor& /*bias*/) {
    return x;
  }

  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], fused::column_sum(gradients[0])};
  }
};

class ActivateFunction : public Function<ActivateFunction> {
 public:
  /// `x` contains `bias` already, which is an argument for its gradient alone.
  static Tensor forward(AutogradContext* context, const Tensor& x, const Tensor& /*bias*/,
                        const std::string& activation) {
    context->save_for_backward({x});
    context->saved_data["activation"] = activation;
    return fused::activate(x, activation);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto [grad_x, grad_bias] = fused::activate_backward(
        gradients[0], saved[0], context->saved_data["activation"].toStringRef());
    return {grad_x, grad_bias, Tensor()};
  }
};

/// Flash attention of queries, keys and values that lie side by side, as views without a copy.
/// `packed` contains `bias` already. The bias's gradient falls out of the pass that puts the three
/// gradients side by side.
class PackedAttentionFunction : public Function<PackedAttentionFunction> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& packed, const Tensor& /*bias*/,
                        std::int64_t heads) {
    const variable_list parts = parts_of(packed, heads);
    const std::int64_t sequence = packed.size(1);
    auto [out, log_sum, random_state, unused, mask] = at::_flash_attention_forward(
        parts[0], parts[1], parts[2], {}, {}, sequence, sequence, /*dropout_p=*/0.0,
        /*is_causal=*/true, /*return_debug_mask=*/false);
    context->save_for_backward({packed, out, log_sum, random_state, unused});
    context->saved_data["heads"] = heads;
    return out.flatten(2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const variable_list parts = parts_of(saved[0], context->saved_data["heads"].toInt());
    const std::int64_t sequence = saved[0].size(1);
    const auto [query, key, value] = at::_flash_attention_backward(
        gradients[0].view(saved[1].sizes()), parts[0], parts[1], parts[2], saved[1], saved[2], {},
        {}, sequence, sequence, /*dropout_p=*/0.0, /*is_causal=*/true, saved[3], saved[4]);
    const auto [packed, bias] =
        fused::concatenate(query.flatten(2), key.flatten(2), value.flatten(2));
    return {packed, bias, Tensor()};
  }

 private:
  /// Views [batch, sequence, 3 * width] as three of [batch, sequence, heads, head_dim].
  static variable_list parts_of(const Tensor& packed, std::int64_t heads) {
    return packed.view({packed.size(0), packed.size(1), 3, heads, -1}).unbind(2);
  }
};

bool takes_bias(const Linear& layer) {
  return layer.bias.defined() && fused::available(layer.bias);
}

/// Whether flash attention's kernels take `x` as it is.
bool takes_flash(const Tensor& x, std::int64_t heads) {
  constexpr std::int64_t kMultiple = 8;
  constexpr std::int64_t kMostHeadDim = 256;
  const std::int64_t head_dim = x.size(-1) / heads;
  return x.is_cuda() && fused::available(x) && x.scalar_type() == torch::kBFloat16 &&
         head_dim % kMultiple == 0 && head_dim <= kMostHeadDim;
}

}  // namespace

Tensor direct_product(const Linear& layer, const Tensor& x) {
  const auto bias = layer.bias.defined() ? std::optional(layer.bias.detach()) : std::nullopt;
  return ProductFunction::apply(x, layer.weight, bias, layer.layout == Linear::Layout::InputsFirst);
}

Branch branch(const Tensor& x, const LayerNorm& norm) {
  if (!fused::norm_available(x)) return {x, norm(x)};
  const variable_list result = BranchFunction::apply(x, norm.weight, norm.bias, norm.epsilon);
  return {result[0], result[1]};
}

Branch add_and_branch(const Tensor& residual, const Linear& layer, const Tensor& x,
                      const LayerNorm& norm) {
  if (!fused::norm_available(residual) || !takes_bias(layer)) {
    const Tensor sum = residual + layer(x);
    return {sum, norm(sum)};
  }
  const variable_list result = AddAndBranchFunction::apply(
      direct_product(layer, x), layer.bias, residual, norm.weight, norm.bias, norm.epsilon);
  return {result[0], result[1]};
}

Tensor with_bias_gradient(const Tensor& x, const Tensor& bias) {
  return BiasGradientFunction::apply(x, bias);
}

Tensor activated(const Linear& layer, const Tensor& x, const std::string& activation) {
  if (!takes_bias(layer)) return activate(layer(x), activation);
  return ActivateFunction::apply(direct_product(layer, x), layer.bias, activation);
}

Tensor packed_attention(const Linear& layer, const Tensor& x, std::int64_t heads,
                        const std::optional<Packing>& packing) {
  const bool divided = packing && packing->is_divided();
  if (!divided && takes_flash(x, heads) && takes_bias(layer)) {
    return PackedAttentionFunction::apply(direct_product(layer, x), layer.bias, heads);
  }
  const variable_list parts = layer(x).chunk(3, -1);
  return merge_heads(causal_attention(split_heads(parts[0], heads), split_heads(parts[1], heads),
                                      split_heads(parts[2], heads), packing));
}

}  // namespace athanor
