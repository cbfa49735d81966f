// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/attention.hpp"

#include <torch/autograd.h>

#include <utility>
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

/// Keeps for backward what attention needs beside its tensors.
struct KeptDocuments : torch::CustomClassHolder {
  KeptDocuments(std::vector<Document> all, std::int64_t seen, std::optional<double> factor)
      : documents(std::move(all)), window(seen), scale(factor) {}
  std::vector<Document> documents;
  std::int64_t window;
  std::optional<double> scale;
};

/// Attention of documents that share sequences. Each is computed by itself: what it costs is
/// quadratic in documents and not in sequences, and no mask takes memory. Backward computes a
/// document's attention again, so less is saved than the profile counts for a whole sequence.
class DocumentAttention : public torch::autograd::Function<DocumentAttention> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& query, const torch::Tensor& key,
                               const torch::Tensor& value,
                               const c10::intrusive_ptr<KeptDocuments>& kept) {
    context->save_for_backward({query, key, value});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    torch::Tensor out = tokens_first_like(query);
    for (const Document& each : kept->documents) {
      const auto part = [&](const torch::Tensor& x) { return document(x, each); };
      part(out).copy_(
          sequence_attention(part(query), part(key), part(value), kept->window, kept->scale));
    }
    return out;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad_outputs) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["kept"].toCapsule();
    const KeptDocuments& kept = static_cast<const KeptDocuments&>(*capsule);
    torch::autograd::variable_list gradients;
    for (const torch::Tensor& x : saved) gradients.push_back(tokens_first_like(x));
    for (const Document& each : kept.documents) {
      const torch::autograd::variable_list found =
          document_gradients(saved, grad_outputs.front(), each, kept);
      for (std::size_t i = 0; i < found.size(); ++i) {
        document(gradients[i], each).copy_(found[i]);
      }
    }
    return {gradients[0], gradients[1], gradients[2], torch::Tensor()};
  }

 private:
  /// Views one document of [batch, heads, sequence, head_dim].
  static torch::Tensor document(const torch::Tensor& x, const Document& of) {
    return x.slice(0, of.sample, of.sample + 1).slice(2, of.begin, of.end);
  }

  /// Allocates [batch, heads, sequence, head_dim] with a token's heads side by side, so that
  /// merge_heads needs no copy.
  static torch::Tensor tokens_first_like(const torch::Tensor& x) {
    return torch::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
  }

  static torch::autograd::variable_list document_gradients(
      const torch::autograd::variable_list& saved, const torch::Tensor& grad_output,
      const Document& of, const KeptDocuments& kept) {
    const at::AutoGradMode with_gradients(true);
    torch::autograd::variable_list leaves;
    for (const torch::Tensor& x : saved) {
      leaves.push_back(document(x, of).detach().requires_grad_());
    }
    const torch::Tensor out =
        sequence_attention(leaves[0], leaves[1], leaves[2], kept.window, kept.scale);
    return torch::autograd::grad({out}, leaves, {document(grad_output, of)});
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
  return DocumentAttention::apply(
      query, key, value,
      c10::make_intrusive<KeptDocuments>(documents_of(packing, query.size(0), query.size(2)),
                                         window, scale));
}

}  // namespace athanor
