// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts with llama's attention: mixtral, qwen2_moe, qwen3_moe and olmoe. A router
// sends each token to a few experts, each a gated MLP; qwen2_moe adds one that all tokens use.
#include "executor/experts/experts.hpp"
#include "executor/units/language_family.hpp"
#include "executor/units/rotary_block.hpp"
#include "sim/model/language_models.hpp"

namespace athanor {

namespace {

using torch::Tensor;

class ExpertsHalf final : public BlockHalf {
 public:
  ExpertsHalf(LanguageUnit& unit, const LanguageModelConfig& c)
      : config_(c), norm_(norm_behind_attention(unit, c)) {
    const ExpertNames names = expert_names(c.model_type);
    router_ = unit.parameter(names.router() + ".weight", {c.experts.number, c.hidden_size});
    weights_ = {{all(unit, names, {names.gate, names.up}), 2}, {all(unit, names, {names.down}), 1}};
    const std::int64_t inner = c.experts.shared_intermediate_size;
    if (inner == 0) return;
    shared_ = gated_mlp(unit, names.mixture + "shared_expert.", c.hidden_size, inner, false);
    shared_gate_ = unit.parameter(names.mixture + "shared_expert_gate.weight", {1, c.hidden_size});
  }

  [[nodiscard]] Tensor add_to(const Tensor& x, const Batch& /*batch*/,
                              Tensor* sums) const override {
    return x + mixture(norm_(x).flatten(0, 1), sums).view_as(x);
  }

 private:
  /// Returns the experts' outputs, and adds their routing to `sums` where it is wanted.
  [[nodiscard]] Tensor mixture(const Tensor& tokens, Tensor* sums) const {
    const ExpertsConfig& experts = config_.experts;
    const Routing routing =
        route(at::linear(tokens, router_), experts.per_token, experts.normalized);
    if (sums != nullptr) *sums = with_routing(*sums, routing);
    Tensor routed = apply_experts(tokens, routing, weights_, config_.activation);
    if (!shared_) return routed;
    const Tensor part = at::sigmoid(at::linear(tokens, shared_gate_));
    return routed + part * (*shared_)(tokens, config_.activation);
  }

  /// Takes the weights of `layers` of every expert, expert by expert.
  [[nodiscard]] Tensors all(LanguageUnit& unit, const ExpertNames& names,
                            std::initializer_list<std::string> layers) const {
    const std::int64_t hidden = config_.hidden_size, inner = config_.experts.intermediate_size;
    Tensors weights;
    for (std::int64_t i = 0; i < config_.experts.number; ++i) {
      for (const std::string& layer : layers) {
        const std::string name = names.expert(i) + layer + ".weight";
        weights.push_back(layer == names.down ? unit.parameter(name, {hidden, inner})
                                              : unit.parameter(name, {inner, hidden}));
      }
    }
    return weights;
  }

  LanguageModelConfig config_;
  RmsNorm norm_;
  Tensor router_, shared_gate_;
  ExpertWeights weights_;
  std::optional<GatedMlp> shared_;
};

/// The perceptron of a block without experts.
class DenseHalf final : public BlockHalf {
 public:
  DenseHalf(LanguageUnit& unit, const LanguageModelConfig& c)
      : activation_(c.activation),
        norm_(norm_behind_attention(unit, c)),
        mlp_(gated_mlp(unit, "mlp.", c.hidden_size, c.intermediate_size, c.mlp_bias)) {}

  [[nodiscard]] Tensor add_to(const Tensor& x, const Batch& /*batch*/,
                              Tensor* /*sums*/) const override {
    return x + mlp_(norm_(x), activation_);
  }

 private:
  std::string activation_;
  RmsNorm norm_;
  GatedMlp mlp_;
};

std::unique_ptr<BlockHalf> make_mixture_half(LanguageUnit& unit, const LanguageModelConfig& config,
                                             std::int64_t layer, Half half) {
  const ExpertsConfig& experts = config.experts;
  const bool dense = !experts.are_in(layer);
  if (half == Half::Attention) {
    const std::int64_t inner =
        dense ? config.intermediate_size : experts.intermediate_size * experts.per_token;
    return std::make_unique<RotaryHalf>(unit, config, inner);
  }
  if (dense) return std::make_unique<DenseHalf>(unit, config);
  return std::make_unique<ExpertsHalf>(unit, config);
}

}  // namespace

const LanguageFamily& mixture_family() {
  static const LanguageFamily family{.tokens = "model.embed_tokens.weight",
                                     .positions = "",
                                     .final_norm = "model.norm",
                                     .norm = LanguageFamily::Norm::RmsNorm,
                                     .block_prefix = "model.layers.",
                                     .make_half = &make_mixture_half};
  return family;
}

}  // namespace athanor
