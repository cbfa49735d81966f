// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/llama_layers.hpp"

#include "executor/layers/fused_operators.hpp"
#include "executor/layers/sink_attention.hpp"

#include <torch/autograd.h>

#include <utility>
#include <vector>

namespace athanor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;
using MaybeTensor = std::optional<Tensor>;

Tensor rows_of(const Tensor& x) { return x.flatten(0, -2); }

/// Views rows as tokens of `like` [.., width].
Tensor tokens_like(const Tensor& rows, const Tensor& like) {
  std::vector<std::int64_t> sizes = like.sizes().vec();
  sizes.back() = rows.size(1);
  return rows.view(sizes);
}

class NormAndProject : public Function<NormAndProject> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& x, const Tensor& weight,
                               double epsilon, at::TensorList weights, at::TensorList biases) {
    const fused::RmsNormed norm = fused::rms_norm(x, weight, epsilon);
    variable_list saved{x, weight, norm.inverse_rms};
    saved.insert(saved.end(), weights.begin(), weights.end());
    saved.insert(saved.end(), biases.begin(), biases.end());
    context->save_for_backward(std::move(saved));
    context->saved_data["epsilon"] = epsilon;
    context->saved_data["num_weights"] = static_cast<std::int64_t>(weights.size());
    return {x, tokens_like(products({weights.vec(), biases.vec()}, rows_of(norm.normal)), x)};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto first_bias =
        saved.begin() + kFirstWeight + context->saved_data["num_weights"].toInt();
    const Tensors weights(saved.begin() + kFirstWeight, first_bias);
    const Tensors biases(first_bias, saved.end());
    const Tensor gradient = rows_of(gradients[1]);
    Tensor normal =
        fused::rms_norm(saved[0], saved[1], context->saved_data["epsilon"].toDouble()).normal;
    const Tensors of_weights = weight_gradients(weights, gradient, rows_of(normal));
    normal.reset();
    const fused::RmsNormGradients of_norm =
        fused::rms_norm_backward(row_gradient(weights, gradient).view_as(saved[0]), gradients[0],
                                 saved[0], saved[2], saved[1]);
    variable_list result{of_norm.x, of_norm.weight, Tensor()};
    result.insert(result.end(), of_weights.begin(), of_weights.end());
    for (Tensor& of_bias : bias_gradients(biases, gradient)) result.push_back(std::move(of_bias));
    return result;
  }

 private:
  static constexpr std::int64_t kFirstWeight = 3;
};

/// Everything about an attention that is no tensor with a gradient.
struct Setting {
  fused::HeadShape heads;
  fused::RotaryPositions rotary;
  fused::Sight sight;
  double epsilon = 0;

  [[nodiscard]] std::int64_t query_width() const { return heads.query_heads * heads.head_dim; }
  [[nodiscard]] std::int64_t key_width() const { return heads.key_heads * heads.head_dim; }
};

/// Queries, keys and values as views.
struct Heads {
  Tensor query, key, value;
};

/// Views columns of x [batch, sequence, width] as heads.
Tensor heads_at(const Tensor& x, std::int64_t column, std::int64_t width, std::int64_t head_dim) {
  return x.slice(2, column, column + width).unflatten(2, {width / head_dim, head_dim});
}

/// Views queries and keys that lie side by side, and the values of `packed` behind them.
Heads heads_of(const Setting& s, const Tensor& rotated, const Tensor& packed) {
  const std::int64_t query = s.query_width(), key = s.key_width(), dim = s.heads.head_dim;
  return {heads_at(rotated, 0, query, dim), heads_at(rotated, query, key, dim),
          heads_at(packed, query + key, key, dim)};
}

/// Setting of a call, kept for backward.
struct KeptSetting : torch::CustomClassHolder {
  explicit KeptSetting(Setting kept) : setting(std::move(kept)) {}
  Setting setting;
};

class Attend : public Function<Attend> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& packed,
                        const MaybeTensor& query_weight, const MaybeTensor& key_weight,
                        const MaybeTensor& sinks, const c10::intrusive_ptr<KeptSetting>& kept) {
    const Setting& s = kept->setting;
    const Tensor rotated = rotate(s, packed, norms_of(s, query_weight, key_weight));
    const Heads heads = heads_of(s, rotated, packed);
    const fused::Attended attended = fused::attention(heads.query, heads.key, heads.value, s.sight);
    if (sinks) join_sinks(*sinks, attended);
    variable_list saved{packed, attended.out, attended.log_sums, sinks.value_or(Tensor())};
    if (query_weight) saved.insert(saved.end(), {*query_weight, *key_weight});
    context->save_for_backward(std::move(saved));
    context->saved_data["setting"] = c10::IValue::make_capsule(kept);
    return attended.out.flatten(2);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto kept = context->saved_data["setting"].toCapsule();
    const Setting& s = static_cast<const KeptSetting&>(*kept).setting;
    const Tensor& packed = saved[0];
    const auto norms = saved.size() > kFirstNorm
                           ? norms_of(s, saved[kFirstNorm], saved[kFirstNorm + 1])
                           : std::nullopt;
    // Without norms, `packed` holds the rotated heads.
    Tensor rotated = norms ? rotate(s, packed, norms) : packed;
    const Heads heads = heads_of(s, rotated, packed);
    Tensor gradient = torch::empty_like(packed);
    const Heads parts = heads_of(s, gradient, gradient);
    const fused::Attended attended{saved[1], saved[2]};
    const Tensor grad_out = gradients[0].view(attended.out.sizes());
    fused::attention_backward(grad_out, heads.query, heads.key, heads.value, attended, s.sight,
                              {parts.query, parts.key, parts.value});
    const Tensor of_sinks =
        saved[3].defined() ? sink_gradients(grad_out, saved[3], attended) : Tensor();
    if (!norms) {
      fused::rotate_in_place(gradient, s.heads.query_heads + s.heads.key_heads, s.rotary,
                             /*back=*/true);
      return {gradient, Tensor(), Tensor(), of_sinks, Tensor()};
    }
    const fused::HeadNormGradients of_norms =
        fused::norm_and_rotate_backward(gradient, packed, s.heads, *norms, s.rotary);
    return {gradient, of_norms.query_weight, of_norms.key_weight, of_sinks, Tensor()};
  }

 private:
  static constexpr std::size_t kFirstNorm = 4;

  static std::optional<fused::HeadNorms> norms_of(const Setting& s, const MaybeTensor& query_weight,
                                                  const MaybeTensor& key_weight) {
    if (!query_weight) return std::nullopt;
    return fused::HeadNorms{*query_weight, *key_weight, s.epsilon};
  }

  /// Returns rotated queries and keys: a tensor of their own with norms, `packed` itself without.
  static Tensor rotate(const Setting& s, const Tensor& packed,
                       const std::optional<fused::HeadNorms>& norms) {
    if (norms) return fused::norm_and_rotate(packed, s.heads, *norms, s.rotary);
    Tensor own = packed;
    fused::rotate_in_place(own, s.heads.query_heads + s.heads.key_heads, s.rotary, /*back=*/false);
    return own;
  }
};

class AddProjection : public Function<AddProjection> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& residual, const Tensor& x,
                        const Tensor& weight, const MaybeTensor& bias) {
    context->save_for_backward({x, weight});
    context->saved_data["has_bias"] = bias.has_value();
    return add_product(residual, rows_of(x), weight, bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor gradient = rows_of(gradients[0]);
    const Tensor of_x = row_gradient({saved[1]}, gradient).view_as(saved[0]);
    const Tensor of_weight = weight_gradients({saved[1]}, gradient, rows_of(saved[0])).front();
    return {gradients[0], of_x, of_weight,
            context->saved_data["has_bias"].toBool() ? fused::column_sum(gradient) : Tensor()};
  }

  /// Returns residual + rows times the weight + bias.
  static Tensor add_product(const Tensor& residual, const Tensor& rows, const Tensor& weight,
                            const MaybeTensor& bias) {
    Tensor sum = torch::empty_like(residual);
    Tensor sum_rows = rows_of(sum);
    fused::product_into(sum_rows, rows, weight.t(), bias, rows_of(residual));
    return sum;
  }
};

class AddGatedProjection : public Function<AddGatedProjection> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& residual, const Tensor& packed,
                        const Tensor& weight, const MaybeTensor& bias,
                        const std::string& activation) {
    context->save_for_backward({packed, weight});
    context->saved_data["has_bias"] = bias.has_value();
    context->saved_data["activation"] = activation;
    return AddProjection::add_product(residual, rows_of(fused::gate(packed, activation)), weight,
                                      bias);
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const Tensor gradient = rows_of(gradients[0]);
    fused::GateGradients of_gate =
        fused::gate_backward(row_gradient({saved[1]}, gradient), rows_of(saved[0]),
                             context->saved_data["activation"].toStringRef());
    const Tensor of_weight = weight_gradients({saved[1]}, gradient, of_gate.y).front();
    return {gradients[0], of_gate.packed.view_as(saved[0]), of_weight,
            context->saved_data["has_bias"].toBool() ? fused::column_sum(gradient) : Tensor(),
            Tensor()};
  }
};

MaybeTensor maybe(const Tensor& tensor) {
  return tensor.defined() ? MaybeTensor(tensor) : std::nullopt;
}

/// Lists the ends of documents among all tokens of a batch; empty where sequences are documents.
std::vector<std::int64_t> document_ends(const std::optional<Packing>& packing,
                                        std::int64_t sequence) {
  std::vector<std::int64_t> ends;
  if (!packing || !packing->is_divided()) return ends;
  std::int64_t first = 0;
  for (const std::vector<std::int64_t>& starts : packing->document_starts) {
    for (const std::int64_t start : starts) ends.push_back(first + start);
    first += sequence;
  }
  ends.push_back(first);
  return ends;
}

}  // namespace

Projected norm_and_project(const Tensor& x, const RmsNorm& norm, const LayerGroup& layers) {
  const variable_list result = NormAndProject::apply(
      x, norm.weight, norm.epsilon, at::TensorList(layers.weights), at::TensorList(layers.biases));
  return {result[0], result[1]};
}

Tensor attend(const RotaryAttention& attention, const Tensor& packed,
              const std::optional<Packing>& packing) {
  Setting setting{
      attention.heads,
      {attention.angles, {}},
      {attention.window, document_ends(packing, packed.size(1)), attention.most_workspace}};
  if (!setting.sight.document_ends.empty()) setting.rotary.positions = packing->positions;
  MaybeTensor query_weight, key_weight;
  if (attention.norms) {
    query_weight = attention.norms->query_weight;
    key_weight = attention.norms->key_weight;
    setting.epsilon = attention.norms->epsilon;
  }
  return Attend::apply(packed, query_weight, key_weight, maybe(attention.sinks),
                       c10::make_intrusive<KeptSetting>(std::move(setting)));
}

Tensor add_projection(const Tensor& residual, const Linear& layer, const Tensor& x) {
  return AddProjection::apply(residual, x, layer.weight, maybe(layer.bias));
}

Tensor add_gated_projection(const Tensor& residual, const Linear& layer, const Tensor& packed,
                            const std::string& activation) {
  return AddGatedProjection::apply(residual, packed, layer.weight, maybe(layer.bias), activation);
}

}  // namespace athanor
