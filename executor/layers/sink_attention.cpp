// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/sink_attention.hpp"

#include <torch/autograd.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

namespace athanor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kQueries = 64;  ///< queries of a block

struct KeptSight : torch::CustomClassHolder {
  KeptSight(std::vector<Document> all, std::int64_t seen)
      : documents(std::move(all)), window(seen) {}
  std::vector<Document> documents;
  std::int64_t window;
};

/// Queries [first, last) of a sample, and the keys [key, last) that one of them sees.
struct Block {
  std::int64_t sample, first, last, key;
};

std::vector<Block> blocks_of(const KeptSight& setting) {
  std::vector<Block> blocks;
  for (const Document& of : setting.documents) {
    for (std::int64_t first = of.begin; first < of.end; first += kQueries) {
      const std::int64_t before = setting.window > 0 ? setting.window - 1 : first;
      blocks.push_back({of.sample, first, std::min(first + kQueries, of.end),
                        std::max(of.begin, first - before)});
    }
  }
  return blocks;
}

/// True where a query of the block does not see a key of it, [queries, keys].
Tensor hidden_keys(const Block& block, std::int64_t window, torch::Device device) {
  const auto options = torch::TensorOptions().dtype(torch::kInt64).device(device);
  const Tensor distance = torch::arange(block.first, block.last, options).unsqueeze(1) -
                          torch::arange(block.key, block.last, options);
  const Tensor later = distance < 0;
  return window > 0 ? later.logical_or(distance >= window) : later;
}

/// Sums are taken in fp32 at least.
torch::ScalarType wide_type(const Tensor& x) {
  return x.scalar_type() == torch::kFloat64 ? torch::kFloat64 : torch::kFloat32;
}

/// One block's part of attention. Rows are the queries of all heads of one key head, so that no key
/// is repeated: [key heads, rows, ..].
class BlockAttention {
 public:
  BlockAttention(const Block& block, std::int64_t window, const Tensor& query, const Tensor& key,
                 const Tensor& value)
      : block_(block),
        group_(query.size(1) / key.size(1)),
        type_(wide_type(query)),
        scale_(1.0 / std::sqrt(static_cast<double>(query.size(3)))),
        query_(rows(query)),
        key_(keys(key)),
        value_(keys(value)),
        scores_(at::bmm(query_, key_.transpose(1, 2)).mul_(scale_)) {
    scores_.unflatten(1, {group_, -1})
        .masked_fill_(hidden_keys(block, window, query.device()),
                      -std::numeric_limits<double>::infinity());
  }

  /// Writes the block's output, and its logarithms of sums with the sinks.
  void forward(const Tensor& sinks, const Tensor& out, const Tensor& log_sums) {
    const Tensor sums = at::logaddexp(scores_.logsumexp(-1), sinks_of_rows(sinks)).unsqueeze(-1);
    write(out, at::bmm(scores_.sub_(sums).exp_(), value_));
    write(log_sums.unsqueeze(-1), sums);
  }

  struct Gradients {
    Tensor query;       ///< written
    Tensor key, value;  ///< [batch, key heads, sequence, head_dim] in the wide type, added to
    Tensor sinks;       ///< [heads] in the wide type, added to
  };
  void backward(const Tensor& grad_out, const Tensor& out, const Tensor& sinks,
                const Tensor& log_sums, const Gradients& gradients) {
    const Tensor sums = rows(log_sums.unsqueeze(-1)), of_out = rows(grad_out);
    const Tensor products = (of_out * rows(out)).sum(-1, /*keepdim=*/true);
    const Tensor shares = scores_.sub_(sums).exp_();
    keys_of(gradients.value).add_(at::bmm(shares.transpose(1, 2), of_out));
    const Tensor of_scores = at::bmm(of_out, value_.transpose(1, 2));
    of_scores.sub_(products).mul_(shares).mul_(scale_);
    write(gradients.query, at::bmm(of_scores, key_));
    keys_of(gradients.key).add_(at::bmm(of_scores.transpose(1, 2), query_));
    const Tensor to_sinks = (sinks_of_rows(sinks).unsqueeze(-1) - sums).exp_().mul_(products);
    gradients.sinks.sub_(to_sinks.unflatten(1, {group_, -1}).sum({2, 3}).flatten());
  }

 private:
  /// The block's queries of x [batch, heads, sequence, ..].
  [[nodiscard]] Tensor queries_of(const Tensor& x) const {
    return x.select(0, block_.sample).slice(1, block_.first, block_.last);
  }
  [[nodiscard]] Tensor keys_of(const Tensor& x) const {
    return x.select(0, block_.sample).slice(1, block_.key, block_.last);
  }
  [[nodiscard]] Tensor rows(const Tensor& x) const {
    return queries_of(x).to(type_).unflatten(0, {-1, group_}).flatten(1, 2);
  }
  [[nodiscard]] Tensor keys(const Tensor& x) const { return keys_of(x).to(type_); }
  [[nodiscard]] Tensor sinks_of_rows(const Tensor& sinks) const {
    return sinks.to(type_).view({-1, group_}).repeat_interleave(block_.last - block_.first, 1);
  }
  void write(const Tensor& to, const Tensor& of_rows) const {
    queries_of(to).copy_(of_rows.unflatten(1, {group_, -1}).flatten(0, 1));
  }

  Block block_;
  std::int64_t group_;  ///< query heads of a key head
  torch::ScalarType type_;
  double scale_;
  Tensor query_, key_, value_, scores_;
};

/// Allocates [batch, heads, sequence, head_dim] with a token's heads side by side.
Tensor tokens_first_like(const Tensor& x) {
  return torch::empty({x.size(0), x.size(2), x.size(1), x.size(3)}, x.options()).transpose(1, 2);
}

class SinkAttention : public Function<SinkAttention> {
 public:
  static Tensor forward(AutogradContext* context, const Tensor& query, const Tensor& key,
                        const Tensor& value, const Tensor& sinks,
                        const c10::intrusive_ptr<KeptSight>& kept) {
    const Tensor out = tokens_first_like(query);
    const Tensor log_sums = torch::empty({query.size(0), query.size(1), query.size(2)},
                                         query.options().dtype(wide_type(query)));
    for (const Block& block : blocks_of(*kept)) {
      BlockAttention(block, kept->window, query, key, value).forward(sinks, out, log_sums);
    }
    context->save_for_backward({query, key, value, sinks, out, log_sums});
    context->saved_data["kept"] = c10::IValue::make_capsule(kept);
    return out;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const variable_list saved = context->get_saved_variables();
    const auto capsule = context->saved_data["kept"].toCapsule();
    const KeptSight& setting = static_cast<const KeptSight&>(*capsule);
    const Tensor &query = saved[0], &key = saved[1], &value = saved[2], &sinks = saved[3];
    const auto sums_like = [&](const Tensor& x) {
      return torch::zeros(x.sizes(), x.options().dtype(wide_type(x)));
    };
    const BlockAttention::Gradients of{tokens_first_like(query), sums_like(key), sums_like(value),
                                       sums_like(sinks)};
    for (const Block& block : blocks_of(setting)) {
      BlockAttention(block, setting.window, query, key, value)
          .backward(gradients[0], saved[4], sinks, saved[5], of);
    }
    const auto type = query.scalar_type();
    return {of.query, of.key.to(type), of.value.to(type), of.sinks.to(sinks.scalar_type()),
            Tensor()};
  }
};

/// Views the sums of fused::attention() by token, [batch, sequence, heads]. Kernels give them as
/// [batch, heads, sequence] or, for documents one behind the other, as [heads, tokens].
Tensor by_token(const fused::Attended& attended) {
  const Tensor &out = attended.out, &sums = attended.log_sums;
  const std::int64_t batch = out.size(0), sequence = out.size(1), heads = out.size(2);
  TORCH_CHECK(sums.numel() == batch * sequence * heads && sums.is_contiguous(),
              "attention's sums are one for each token and head");
  if (sums.dim() == 2) return sums.view({heads, batch, sequence}).permute({1, 2, 0});
  return sums.view({batch, heads, sequence}).transpose(1, 2);
}

}  // namespace

Tensor sink_attention(const Tensor& query, const Tensor& key, const Tensor& value,
                      const Tensor& sinks, const std::optional<Packing>& packing,
                      std::int64_t window) {
  return SinkAttention::apply(
      query, key, value, sinks,
      c10::make_intrusive<KeptSight>(documents_of(packing, query.size(0), query.size(2)), window));
}

void join_sinks(const Tensor& sinks, const fused::Attended& attended) {
  const Tensor sums = by_token(attended);
  const Tensor joined = at::logaddexp(sums, sinks.to(sums.scalar_type()));
  attended.out.mul_((sums - joined).exp_().unsqueeze(-1));
  sums.copy_(joined);
}

Tensor sink_gradients(const Tensor& grad_out, const Tensor& sinks,
                      const fused::Attended& attended) {
  const Tensor sums = by_token(attended);
  const Tensor products = (grad_out * attended.out).sum(-1, /*keepdim=*/false, sums.scalar_type());
  const Tensor shares = (sinks.to(sums.scalar_type()) - sums).exp_();
  return shares.mul_(products).flatten(0, 1).sum(0).neg_().to(sinks.scalar_type());
}

}  // namespace athanor
