// SPDX-License-Identifier: Apache-2.0
// OPT (Zhang et al. 2022): learned positions whose table starts at row 2, pre-norm, ReLU.
#include "executor/layers/attention.hpp"
#include "executor/layers/fused_layers.hpp"
#include "executor/units/language_family.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

/// Row of the position table that holds position 0. The rows before it belong to padding in the
/// original vocabulary.
constexpr std::int64_t kFirstPosition = 2;

constexpr const char* kOptBlocks = "model.decoder.layers.";

class OptAttention final : public BlockHalf {
 public:
  OptAttention(LanguageUnit& unit, const LanguageModelConfig& c)
      : heads_(c.num_heads),
        norm_(unit.layer_norm("self_attn_layer_norm", c)),
        query_(square(unit, c, "self_attn.q_proj", c.attention_bias)),
        key_(square(unit, c, "self_attn.k_proj", c.attention_bias)),
        value_(square(unit, c, "self_attn.v_proj", c.attention_bias)),
        output_(square(unit, c, "self_attn.out_proj", c.attention_output_bias)) {}

  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& batch,
                                     torch::Tensor* /*sums*/) const override {
    const Branch stream = branch(x, norm_);
    return stream.trunk + output_(attention(stream.normal, batch.packing));
  }
  /// Returns add_to(x) and the norm of it.
  [[nodiscard]] Branch add_to(const torch::Tensor& x, const Batch& batch,
                              const LayerNorm& norm) const {
    const Branch stream = branch(x, norm_);
    return add_and_branch(stream.trunk, output_, attention(stream.normal, batch.packing), norm);
  }

 private:
  static Linear square(LanguageUnit& unit, const LanguageModelConfig& c, const std::string& name,
                       bool bias) {
    return unit.linear(name, c.hidden_size, c.hidden_size, bias);
  }

  [[nodiscard]] torch::Tensor attention(const torch::Tensor& x,
                                        const std::optional<Packing>& packing) const {
    return merge_heads(causal_attention(split_heads(query_(x), heads_),
                                        split_heads(key_(x), heads_),
                                        split_heads(value_(x), heads_), packing));
  }

  std::int64_t heads_;
  LayerNorm norm_;
  Linear query_, key_, value_, output_;
};

class OptMlp final : public BlockHalf {
 public:
  OptMlp(LanguageUnit& unit, const LanguageModelConfig& c)
      : activation_(c.activation),
        norm_(unit.layer_norm("final_layer_norm", c)),
        expand_(unit.linear("fc1", c.intermediate_size, c.hidden_size, c.mlp_bias)),
        contract_(unit.linear("fc2", c.hidden_size, c.intermediate_size, c.mlp_bias)) {}

  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& /*batch*/,
                                     torch::Tensor* /*sums*/) const override {
    return add_to(branch(x, norm_));
  }
  [[nodiscard]] torch::Tensor add_to(const Branch& stream) const {
    return stream.trunk + contract_(activated(expand_, stream.normal, activation_));
  }
  [[nodiscard]] const LayerNorm& norm() const noexcept { return norm_; }

 private:
  std::string activation_;
  LayerNorm norm_;
  Linear expand_, contract_;
};

/// Both halves, with one operator from attention's output to the other half's norm.
class OptBlock final : public LanguageUnit {
 public:
  OptBlock(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer, DataType dtype)
      : LanguageUnit(unit, fmt::format("{}{}.", kOptBlocks, layer), dtype),
        attention_(*this, c),
        mlp_(*this, c) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    return mlp_.add_to(attention_.add_to(activation, batch, mlp_.norm()));
  }

 private:
  OptAttention attention_;
  OptMlp mlp_;
};

std::unique_ptr<BlockHalf> make_opt_half(LanguageUnit& unit, const LanguageModelConfig& config,
                                         std::int64_t /*layer*/, Half half) {
  if (half == Half::Attention) return std::make_unique<OptAttention>(unit, config);
  return std::make_unique<OptMlp>(unit, config);
}

}  // namespace

const LanguageFamily& opt_family() {
  static const LanguageFamily family{.tokens = "model.decoder.embed_tokens.weight",
                                     .positions = "model.decoder.embed_positions.weight",
                                     .first_position = kFirstPosition,
                                     .final_norm = "model.decoder.final_layer_norm",
                                     .norm = LanguageFamily::Norm::LayerNorm,
                                     .block_prefix = kOptBlocks,
                                     .make_half = &make_opt_half,
                                     .make_whole_block = &make_whole_block<OptBlock>};
  return family;
}

}  // namespace athanor
