// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts with llama's attention: mixtral, qwen2_moe, qwen3_moe and olmoe. A router
// sends each token to a few experts, each a gated MLP; qwen2_moe adds one that all tokens use.
#include "executor/layers/balance_loss.hpp"
#include "executor/layers/experts.hpp"
#include "executor/units/language_family.hpp"
#include "executor/units/rotary_block.hpp"
#include "sim/model/language_models.hpp"

namespace athanor {

namespace {

using torch::Tensor;

class MixtureBlock final : public RotaryBlock {
 public:
  MixtureBlock(const Unit& unit, const LanguageModelConfig& c, std::int64_t layer, DataType dtype)
      : RotaryBlock(unit, c, layer, dtype) {
    if (!c.experts.are_in(layer)) {
      dense_ = gated_mlp("mlp.", c.intermediate_size, c.mlp_bias);
      return;
    }
    const ExpertNames names = expert_names(c.model_type);
    router_ = parameter(names.router() + ".weight", {c.experts.number, c.hidden_size});
    weights_ = {{all(names, {names.gate, names.up}), 2}, {all(names, {names.down}), 1}};
    if (c.experts.shared_intermediate_size == 0) return;
    shared_ =
        gated_mlp(names.mixture + "shared_expert.", c.experts.shared_intermediate_size, false);
    shared_gate_ = parameter(names.mixture + "shared_expert_gate.weight", {1, c.hidden_size});
  }

  Tensor forward(Tensor activation, const Batch& batch) override {
    if (config().experts.balance_loss_factor == 0) return block(activation, batch, nullptr);
    Routed routed = parted(activation, batch.inputs, config().hidden_size);
    routed.hidden = block(routed.hidden, batch, &routed.sums);
    return joined(routed);
  }

 private:
  /// Returns the block's output, and adds its routing to `sums` where they are wanted.
  Tensor block(const Tensor& x, const Batch& batch, Tensor* sums) const {
    const Tensor middle = add_attention(x, batch.packing, gated_bytes(x));
    const Tensor normal = mlp_norm()(middle);
    if (dense_) return middle + (*dense_)(normal, config().activation);
    return middle + mixture(normal.flatten(0, 1), sums).view_as(middle);
  }

  Tensor mixture(const Tensor& tokens, Tensor* sums) const {
    const ExpertsConfig& experts = config().experts;
    const Routing routing =
        route(at::linear(tokens, router_), experts.per_token, experts.normalized);
    if (sums != nullptr) *sums = with_routing(*sums, routing);
    Tensor routed = apply_experts(tokens, routing, weights_, config().activation);
    if (!shared_) return routed;
    const Tensor part = at::sigmoid(at::linear(tokens, shared_gate_));
    return routed + part * (*shared_)(tokens, config().activation);
  }

  /// Takes the weights of `layers` of every expert, expert by expert.
  Tensors all(const ExpertNames& names, std::initializer_list<std::string> layers) {
    const std::int64_t hidden = config().hidden_size, inner = config().experts.intermediate_size;
    Tensors weights;
    for (std::int64_t i = 0; i < config().experts.number; ++i) {
      for (const std::string& layer : layers) {
        const std::string name = names.expert(i) + layer + ".weight";
        weights.push_back(layer == names.down ? parameter(name, {hidden, inner})
                                              : parameter(name, {inner, hidden}));
      }
    }
    return weights;
  }

  /// Bytes of gate, up and their product with the gradients of all three, of all rows.
  [[nodiscard]] std::int64_t gated_bytes(const Tensor& x) const {
    constexpr std::int64_t kMatrices = 6;
    const ExpertsConfig& experts = config().experts;
    const std::int64_t inner =
        dense_ ? config().intermediate_size : experts.intermediate_size * experts.per_token;
    return kMatrices * inner * x.size(0) * x.size(1) * x.element_size();
  }

  std::optional<GatedMlp> dense_, shared_;  // that of a block without experts; the shared expert
  Tensor router_, shared_gate_;
  ExpertWeights weights_;
};

}  // namespace

const LanguageFamily& mixture_family() {
  static const LanguageFamily family{.tokens = "model.embed_tokens.weight",
                                     .positions = "",
                                     .final_norm = "model.norm",
                                     .norm = LanguageFamily::Norm::RmsNorm,
                                     .make_block = &make_block<MixtureBlock>};
  return family;
}

}  // namespace athanor
