// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/attention.hpp"

#include <torch/autograd.h>

#include <algorithm>
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

/// Attention of whole sequences.
torch::Tensor sequence_attention(const torch::Tensor& query, const torch::Tensor& key,
                                 const torch::Tensor& value, std::int64_t window,
                                 std::optional<double> scale) {
  const std::int64_t group = query.size(1) / key.size(1);
  const torch::Tensor keys = repeat_heads(key, group);
  const torch::Tensor values = repeat_heads(value, group);
  const std::int64_t sequence = query.size(2);
  if (window > 0 && window < sequence) {
    return at::scaled_dot_product_attention(query, keys, values,
                                            window_mask(sequence, window, query.device()),
                                            /*dropout_p=*/0.0, /*is_causal=*/false, scale);
  }
  return at::scaled_dot_product_attention(query, keys, values, /*attn_mask=*/{}, /*dropout_p=*/0.0,
                                          /*is_causal=*/true, scale);
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
                               const std::vector<std::int64_t>& documents, std::int64_t window,
                               std::optional<double> scale) {
    context->save_for_backward({query, key, value});
    context->saved_data["documents"] = documents;
    context->saved_data["window"] = window;
    context->saved_data["scale"] = scale;
    torch::Tensor out = tokens_first_like(query);
    for_each_document(documents, [&](std::int64_t sample, std::int64_t begin, std::int64_t end) {
      const auto part = [&](const torch::Tensor& x) { return document(x, sample, begin, end); };
      part(out).copy_(sequence_attention(part(query), part(key), part(value), window, scale));
    });
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad_outputs) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const std::vector<std::int64_t> documents = context->saved_data["documents"].toIntVector();
    const std::int64_t window = context->saved_data["window"].toInt();
    const auto scale = context->saved_data["scale"].toOptional<double>();
    torch::autograd::variable_list gradients;
    for (const torch::Tensor& x : saved) gradients.push_back(tokens_first_like(x));
    for_each_document(documents, [&](std::int64_t sample, std::int64_t begin, std::int64_t end) {
      const torch::autograd::variable_list found = document_gradients(
          saved, document(grad_outputs.front(), sample, begin, end), window, scale,
          [&](const torch::Tensor& x) { return document(x, sample, begin, end); });
      for (std::size_t i = 0; i < found.size(); ++i) {
        document(gradients[i], sample, begin, end).copy_(found[i]);
      }
    });
    return {gradients[0],    gradients[1],    gradients[2],
            torch::Tensor(), torch::Tensor(), torch::Tensor()};
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
      std::int64_t window, std::optional<double> scale, const Part& part) {
    const at::AutoGradMode with_gradients(true);
    torch::autograd::variable_list leaves;
    for (const torch::Tensor& x : saved) leaves.push_back(part(x).detach().requires_grad_());
    const torch::Tensor out = sequence_attention(leaves[0], leaves[1], leaves[2], window, scale);
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
                               std::int64_t window, std::optional<double> scale) {
  if (!packing || !packing->is_divided()) {
    return sequence_attention(query, key, value, window, scale);
  }
  return DocumentAttention::apply(query, key, value, flat_documents(*packing, query.size(2)),
                                  window, scale);
}

}  // namespace athanor
