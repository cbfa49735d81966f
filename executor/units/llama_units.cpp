// SPDX-License-Identifier: Apache-2.0
// The llama family (Touvron et al. 2023): RMSNorm, rotary positions, grouped-query attention and a
// gated MLP. mistral adds a sliding window, qwen2 biases of q, k and v, qwen3 norms of each head's
// q and k.
#include "executor/layers/fused_operators.hpp"
#include "executor/units/language_family.hpp"
#include "executor/units/rotary_block.hpp"
#include "sim/base/errors.hpp"

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

namespace {

class LlamaMlp final : public BlockHalf {
 public:
  LlamaMlp(LanguageUnit& unit, const LanguageModelConfig& c)
      : config_(c),
        norm_(norm_behind_attention(unit, c)),
        mlp_(gated_mlp(unit, "mlp.", c.hidden_size, c.intermediate_size, c.mlp_bias)) {}

  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& /*batch*/,
                                     torch::Tensor* /*sums*/) const override {
    if (!takes_fused_attention(x, config_) || !fused::available(mlp_.down.weight)) {
      return x + mlp_(norm_(x), config_.activation);
    }
    const Projected stream = norm_and_project(x, norm_, group_of({mlp_.gate, mlp_.up}));
    return add_gated_projection(stream.trunk, mlp_.down, stream.outputs, config_.activation);
  }

 private:
  LanguageModelConfig config_;
  RmsNorm norm_;
  GatedMlp mlp_;
};

std::unique_ptr<BlockHalf> make_llama_half(LanguageUnit& unit, const LanguageModelConfig& config,
                                           std::int64_t /*layer*/, Half half) {
  if (half == Half::Behind) return std::make_unique<LlamaMlp>(unit, config);
  return std::make_unique<RotaryHalf>(unit, config, config.intermediate_size);
}

// Below are halves whose tensors are split among ranks: some heads of attention, or some inner
// features of the perceptron. The norm is computed on a rank's own rows before these travel.

using torch::Tensor;

/// Returns the shape of a rank's part. Biases behind the sum of all parts are none of it.
LanguageModelConfig part_of(LanguageModelConfig config, int ranks) {
  config.num_heads /= ranks;
  config.num_kv_heads /= ranks;
  config.intermediate_size /= ranks;
  config.attention_output_bias = false;
  return config;
}

class SplitHalf : public LanguageUnit, public TravellingUnit {
 public:
  SplitHalf(const Unit& part, std::string prefix, const LanguageModelConfig& c, DataType dtype,
            int ranks)
      : LanguageUnit(part, std::move(prefix), dtype),
        hidden_(c.hidden_size),
        carries_sums_(c.experts.balance_loss_factor > 0),
        residual_(c.multipliers.residual),
        ranks_(ranks) {}

  Tensor forward(Tensor /*activation*/, const Batch& /*batch*/) override {
    throw Error("a unit whose tensors are split runs by stages");
  }

  [[nodiscard]] std::int64_t rows_of_ranks() const override { return ranks_; }

  Departure depart(const Tensor& activation, const Batch& batch) override {
    Routed stream{activation, Tensor()};
    if (carries_sums_) stream = parted(activation, batch.inputs, hidden_);
    Departure departure;
    departure.rows = normal(stream.hidden);
    departure.home = {at::alias(stream.hidden)};
    if (carries_sums_) departure.home.push_back(stream.sums);
    return departure;
  }

  Tensor arrive(const std::vector<Tensor>& home, const TokenSlots& /*slots*/, const Tensor& rows,
                const Batch& /*batch*/) override {
    Tensor hidden = at::add(home[0], rows, residual_);
    if (bias_.defined()) hidden = at::add(hidden, bias_, residual_);
    return carries_sums_ ? joined({hidden, home[1]}) : hidden;
  }

 protected:
  [[nodiscard]] virtual Tensor normal(const Tensor& x) const = 0;
  Tensor bias_;  ///< bias of the layer whose parts are summed, or undefined

 private:
  std::int64_t hidden_;
  bool carries_sums_;  ///< whether activations carry sums of the experts' routing
  double residual_;
  int ranks_;
};

class SplitAttention final : public SplitHalf {
 public:
  SplitAttention(const Unit& part, std::string prefix, const LanguageModelConfig& c, DataType dtype,
                 int ranks)
      : SplitHalf(part, std::move(prefix), c, dtype, ranks),
        half_(*this, part_of(c, ranks), c.intermediate_size) {
    if (c.attention_output_bias) bias_ = parameter("self_attn.o_proj.bias", {c.hidden_size});
  }

  Tensor run_part(const Tensor& rows, const Tensor& /*ends*/) override {
    return half_.attention(rows, std::nullopt);
  }

 protected:
  [[nodiscard]] Tensor normal(const Tensor& x) const override { return half_.normal(x); }

 private:
  RotaryHalf half_;
};

class SplitMlp final : public SplitHalf {
 public:
  SplitMlp(const Unit& part, std::string prefix, const LanguageModelConfig& c, DataType dtype,
           int ranks)
      : SplitHalf(part, std::move(prefix), c, dtype, ranks),
        activation_(c.activation),
        norm_(norm_behind_attention(*this, c)) {
    const std::int64_t inner = part_of(c, ranks).intermediate_size;
    mlp_ = {linear("mlp.gate_proj", inner, c.hidden_size, c.mlp_bias),
            linear("mlp.up_proj", inner, c.hidden_size, c.mlp_bias),
            linear("mlp.down_proj", c.hidden_size, inner, /*bias=*/false)};
    if (c.mlp_bias) bias_ = parameter("mlp.down_proj.bias", {c.hidden_size});
  }

  Tensor run_part(const Tensor& rows, const Tensor& /*ends*/) override {
    return mlp_(rows, activation_);
  }

 protected:
  [[nodiscard]] Tensor normal(const Tensor& x) const override { return norm_(x); }

 private:
  std::string activation_;
  RmsNorm norm_;
  GatedMlp mlp_;
};

}  // namespace

std::shared_ptr<LanguageUnit> make_split_half(const Unit& part, std::string prefix,
                                              const LanguageModelConfig& config, DataType dtype,
                                              int ranks) {
  if (part.forward_flops_per_token_per_context > 0) {
    return std::make_shared<SplitAttention>(part, std::move(prefix), config, dtype, ranks);
  }
  return std::make_shared<SplitMlp>(part, std::move(prefix), config, dtype, ranks);
}

const LanguageFamily& llama_family() {
  static const LanguageFamily family{.tokens = "model.embed_tokens.weight",
                                     .positions = "",
                                     .final_norm = "model.norm",
                                     .norm = LanguageFamily::Norm::RmsNorm,
                                     .block_prefix = "model.layers.",
                                     .make_half = &make_llama_half};
  return family;
}

}  // namespace athanor
