// SPDX-License-Identifier: Apache-2.0
#include "executor/units/attention.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <vector>

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

// The scalings are those of transformers (modeling_rope_utils.py), in fp32 and in its order.

/// Returns the base of the frequencies. `dynamic` raises it for sequences beyond the trained
/// positions.
double base_of(const LanguageModelConfig& config, std::int64_t sequence) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type != "dynamic" || sequence <= scaling.original_positions) return config.rope_theta;
  const double longer =
      static_cast<double>(sequence) / static_cast<double>(scaling.original_positions);
  const auto dim = static_cast<double>(config.head_dim);
  return config.rope_theta *
         std::pow(scaling.factor * longer - (scaling.factor - 1), dim / (dim - 2));
}

/// Scales the frequencies of waves that are longer than a share of the trained positions, with a
/// smooth change.
torch::Tensor llama3_frequencies(const torch::Tensor& plain, const RopeScaling& scaling) {
  const auto positions = static_cast<double>(scaling.original_positions);
  const double low = scaling.low_frequency_factor, high = scaling.high_frequency_factor;
  const torch::Tensor waves = 2 * std::numbers::pi / plain;
  const torch::Tensor far = torch::where(waves > positions / low, plain / scaling.factor, plain);
  const torch::Tensor smooth = (positions / waves - low) / (high - low);
  const torch::Tensor between = (1 - smooth) * far / scaling.factor + smooth * far;
  const torch::Tensor is_between =
      torch::logical_and(waves >= positions / high, waves <= positions / low);
  return torch::where(is_between, between, far);
}

/// Returns the element at whose frequency the trained positions hold `turns` whole turns.
double element_of_turns(double turns, const LanguageModelConfig& config) {
  const auto positions = static_cast<double>(config.rope_scaling.original_positions);
  return static_cast<double>(config.head_dim) *
         std::log(positions / (turns * 2 * std::numbers::pi)) / (2 * std::log(config.rope_theta));
}

torch::Tensor yarn_frequencies(const torch::Tensor& plain, const LanguageModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  double low = element_of_turns(scaling.beta_fast, config);
  double high = element_of_turns(scaling.beta_slow, config);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.head_dim - 1));
  if (low == high) high += 0.001;
  const torch::Tensor ramp =
      ((torch::arange(plain.size(0), plain.options()) - low) / (high - low)).clamp(0, 1);
  return plain / scaling.factor * ramp + plain * (1 - ramp);
}

torch::Tensor longrope_frequencies(const torch::Tensor& plain, const RopeScaling& scaling,
                                   std::int64_t sequence) {
  const std::vector<double>& factors =
      sequence > scaling.original_positions ? scaling.long_factor : scaling.short_factor;
  return plain / torch::tensor(factors, torch::kFloat32).to(plain.device());
}

torch::Tensor scaled(const torch::Tensor& plain, const LanguageModelConfig& config,
                     std::int64_t sequence) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type == "linear") return plain / scaling.factor;
  if (scaling.type == "llama3") return llama3_frequencies(plain, scaling);
  if (scaling.type == "yarn") return yarn_frequencies(plain, config);
  if (scaling.type == "longrope") return longrope_frequencies(plain, scaling, sequence);
  return plain;  // none, or dynamic, which changes the base
}

/// Attention of whole sequences.
torch::Tensor sequence_attention(const torch::Tensor& query, const torch::Tensor& key,
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

/// Calls `body(sample, begin, end)` for every document.
template <typename Body>
void for_each_document(at::IntArrayRef flat, const Body& body) {
  constexpr std::size_t kNumbers = 3;
  for (std::size_t i = 0; i + kNumbers <= flat.size(); i += kNumbers) {
    body(flat[i], flat[i + 1], flat[i + 2]);
  }
}

/// Lists the sample, begin and end of every document.
std::vector<std::int64_t> flat_documents(const Packing& packing, std::int64_t sequence) {
  std::vector<std::int64_t> flat;
  for (std::size_t sample = 0; sample < packing.document_starts.size(); ++sample) {
    const std::vector<std::int64_t>& starts = packing.document_starts[sample];
    for (std::size_t i = 0; i < starts.size(); ++i) {
      const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : sequence;
      flat.insert(flat.end(), {static_cast<std::int64_t>(sample), starts[i], end});
    }
  }
  return flat;
}

/// Attention of documents that share sequences. Each is computed by itself: what it costs is
/// quadratic in documents and not in sequences, and no mask takes memory. Backward computes a
/// document's attention again, so less is saved than the profile counts for a whole sequence.
class DocumentAttention : public torch::autograd::Function<DocumentAttention> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value,
                               const std::vector<std::int64_t>& documents, std::int64_t window) {
    context->save_for_backward({query, key, value});
    context->saved_data["documents"] = documents;
    context->saved_data["window"] = window;
    torch::Tensor out = tokens_first_like(query);
    for_each_document(documents, [&](std::int64_t sample, std::int64_t begin, std::int64_t end) {
      const auto part = [&](const torch::Tensor& x) { return document(x, sample, begin, end); };
      part(out).copy_(sequence_attention(part(query), part(key), part(value), window));
    });
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad_outputs) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const std::vector<std::int64_t> documents = context->saved_data["documents"].toIntVector();
    const std::int64_t window = context->saved_data["window"].toInt();
    torch::autograd::variable_list gradients;
    for (const torch::Tensor& x : saved) gradients.push_back(tokens_first_like(x));
    for_each_document(documents, [&](std::int64_t sample, std::int64_t begin, std::int64_t end) {
      const torch::autograd::variable_list found = document_gradients(
          saved, document(grad_outputs.front(), sample, begin, end), window,
          [&](const torch::Tensor& x) { return document(x, sample, begin, end); });
      for (std::size_t i = 0; i < found.size(); ++i) {
        document(gradients[i], sample, begin, end).copy_(found[i]);
      }
    });
    return {gradients[0], gradients[1], gradients[2], torch::Tensor(), torch::Tensor()};
  }

 private:
  /// Views one document of [batch, heads, sequence, head_dim].
  static torch::Tensor document(const torch::Tensor& x, std::int64_t sample, std::int64_t begin,
                                std::int64_t end) {
    return x.slice(0, sample, sample + 1).slice(2, begin, end);
  }

  /// Allocates [batch, heads, sequence, head_dim] with a token's heads side by side, so that
  /// merge_heads needs no copy.
  static torch::Tensor tokens_first_like(const torch::Tensor& x) {
    return torch::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  }

  template <typename Part>
  static torch::autograd::variable_list document_gradients(
      const torch::autograd::variable_list& saved, const torch::Tensor& grad_output,
      std::int64_t window, const Part& part) {
    const at::AutoGradMode with_gradients(true);
    torch::autograd::variable_list leaves;
    for (const torch::Tensor& x : saved) leaves.push_back(part(x).detach().requires_grad_());
    const torch::Tensor out = sequence_attention(leaves[0], leaves[1], leaves[2], window);
    return torch::autograd::grad({out}, leaves, {grad_output});
  }
};

}  // namespace

torch::Tensor split_heads(const torch::Tensor& x, std::int64_t heads) {
  return x.view({x.size(0), x.size(1), heads, x.size(2) / heads}).transpose(1, 2);
}

torch::Tensor merge_heads(const torch::Tensor& x) {
  return x.transpose(1, 2).reshape({x.size(0), x.size(2), x.size(1) * x.size(3)});
}

torch::Tensor causal_attention(const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value, const std::optional<Packing>& packing,
                               std::int64_t window) {
  if (!packing || !packing->is_divided()) return sequence_attention(query, key, value, window);
  return DocumentAttention::apply(query, key, value, flat_documents(*packing, query.size(2)),
                                  window);
}

bool Packing::is_divided() const {
  return std::any_of(document_starts.begin(), document_starts.end(),
                     [](const auto& starts) { return starts.size() > 1; });
}

RotaryTable rotary_table(std::int64_t sequence, const LanguageModelConfig& config,
                         const torch::Tensor& like) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(like.device());
  const RopeScaling& scaling = config.rope_scaling;
  const torch::Tensor exponents =
      torch::arange(0, config.head_dim, 2, options) / static_cast<double>(config.head_dim);
  const torch::Tensor plain = torch::pow(base_of(config, sequence), exponents).reciprocal();
  const torch::Tensor frequencies = scaled(plain, config, sequence);
  const torch::Tensor half = torch::outer(torch::arange(sequence, options), frequencies);
  const torch::Tensor angles = torch::cat({half, half}, 1);
  RotaryTable table{angles.cos(), angles.sin()};
  if (scaling.attention_factor != 1) {
    table.cosines = table.cosines * scaling.attention_factor;
    table.sines = table.sines * scaling.attention_factor;
  }
  return {table.cosines.to(like.scalar_type()), table.sines.to(like.scalar_type())};
}

RotaryTable restarted(const RotaryTable& table, const std::optional<Packing>& packing) {
  if (!packing || !packing->is_divided()) return table;
  const auto at_positions = [&](const torch::Tensor& of_sequence) {
    return at::embedding(of_sequence, packing->positions).unsqueeze(1);
  };
  return {at_positions(table.cosines), at_positions(table.sines)};
}

torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table) {
  const std::vector<torch::Tensor> halves = x.chunk(2, -1);
  return x * table.cosines + torch::cat({-halves[1], halves[0]}, -1) * table.sines;
}

}  // namespace athanor
