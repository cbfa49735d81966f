// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts with llama's attention: mixtral, qwen2_moe, qwen3_moe, olmoe, granitemoe and
// gpt_oss. A router sends each token to a few experts, each a gated MLP; qwen2_moe adds one that
// all tokens use, granitemoe constant factors, and gpt_oss biases, a gate with limits, sinks of
// attention, and windows in some blocks.
#include "executor/experts/experts.hpp"
#include "executor/travel/token_moves.hpp"
#include "executor/units/language_family.hpp"
#include "executor/units/rotary_block.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/language_models.hpp"

#include <optional>
#include <utility>

namespace athanor {

namespace {

using torch::Tensor;

class ExpertsHalf final : public BlockHalf {
 public:
  /// `unit` has the experts [first, first + count).
  ExpertsHalf(LanguageUnit& unit, const LanguageModelConfig& c, std::int64_t first,
              std::int64_t count)
      : config_(c), first_(first), count_(count), norm_(norm_behind_attention(unit, c)) {
    const ExpertNames names = expert_names(c.model_type);
    const bool biases = has_expert_biases(c.model_type);
    router_ = unit.parameter(names.router() + ".weight", {c.experts.number, c.hidden_size});
    if (biases) router_bias_ = unit.parameter(names.router() + ".bias", {c.experts.number});
    weights_ = {{weights_of(unit, names, {names.gate, names.up}), 2},
                {weights_of(unit, names, {names.down}), 1}};
    if (biases) {
      weights_.gate_up.biases = biases_of(unit, names, {names.gate, names.up});
      weights_.down.biases = biases_of(unit, names, {names.down});
    }
    const std::int64_t inner = c.experts.shared_intermediate_size;
    if (inner == 0) return;
    shared_ = gated_mlp(unit, names.mixture + "shared_expert.", c.hidden_size, inner, false);
    shared_gate_ = unit.parameter(names.mixture + "shared_expert_gate.weight", {1, c.hidden_size});
  }

  [[nodiscard]] Tensor add_to(const Tensor& x, const Batch& /*batch*/,
                              Tensor* sums) const override {
    const Tensor tokens = tokens_of(x);
    const Routing routing = routed(tokens, sums);
    return added(x, with_shared(experts(tokens, routing), tokens));
  }

  /// Adds what the experts return to the residual stream.
  [[nodiscard]] Tensor added(const Tensor& x, const Tensor& branch) const {
    return at::add(x, branch.view_as(x), config_.multipliers.residual);
  }

  [[nodiscard]] Tensor tokens_of(const Tensor& x) const { return norm_(x).flatten(0, 1); }

  /// Routes tokens, and adds their routing to `sums` where it is wanted.
  [[nodiscard]] Routing routed(const Tensor& tokens, Tensor* sums) const {
    const ExpertsConfig& experts = config_.experts;
    Routing routing =
        route(at::linear(tokens, router_, router_bias_), experts.per_token, experts.normalized);
    if (sums != nullptr) *sums = with_routing(*sums, routing);
    return routing;
  }

  [[nodiscard]] Tensor experts(const Tensor& tokens, const Routing& routing) const {
    return apply_experts(tokens, routing, weights_,
                         {config_.activation, config_.experts.gate_limit});
  }

  [[nodiscard]] bool has_shared() const { return shared_.has_value(); }

  /// Returns the sum of the experts' outputs and that of the shared expert.
  [[nodiscard]] Tensor with_shared(const Tensor& routed, const Tensor& tokens) const {
    if (!shared_) return routed;
    const Tensor part = at::sigmoid(at::linear(tokens, shared_gate_));
    return routed + part * (*shared_)(tokens, config_.activation);
  }

 private:
  /// Takes the weights of `layers` of every expert, expert by expert.
  [[nodiscard]] Tensors weights_of(LanguageUnit& unit, const ExpertNames& names,
                                   std::initializer_list<std::string> layers) const {
    const std::int64_t hidden = config_.hidden_size, inner = config_.experts.intermediate_size;
    return each(names, layers, [&](const std::string& name, bool is_down) {
      return is_down ? unit.parameter(name + ".weight", {hidden, inner})
                     : unit.parameter(name + ".weight", {inner, hidden});
    });
  }

  [[nodiscard]] Tensors biases_of(LanguageUnit& unit, const ExpertNames& names,
                                  std::initializer_list<std::string> layers) const {
    const std::int64_t hidden = config_.hidden_size, inner = config_.experts.intermediate_size;
    return each(names, layers, [&](const std::string& name, bool is_down) {
      return unit.parameter(name + ".bias", {is_down ? hidden : inner});
    });
  }

  template <typename Take>
  [[nodiscard]] Tensors each(const ExpertNames& names, std::initializer_list<std::string> layers,
                             const Take& take) const {
    Tensors taken;
    for (std::int64_t i = first_; i < first_ + count_; ++i) {
      for (const std::string& layer : layers) {
        taken.push_back(take(names.expert(i) + layer, layer == names.down));
      }
    }
    return taken;
  }

  LanguageModelConfig config_;
  std::int64_t first_, count_;
  RmsNorm norm_;
  Tensor router_, router_bias_, shared_gate_;
  ExpertWeights weights_;
  std::optional<GatedMlp> shared_;
};

/// Experts' half of a block, of which this rank holds some experts.
class TravellingExperts final : public LanguageUnit, public TravellingUnit {
 public:
  TravellingExperts(const Unit& part, std::string prefix, const LanguageModelConfig& config,
                    DataType dtype, const ExpertShare& share)
      : LanguageUnit(part, std::move(prefix), dtype),
        experts_(config.experts),
        hidden_(config.hidden_size),
        share_(share),
        half_(*this, config, share.first, share.count) {}

  Tensor forward(Tensor /*activation*/, const Batch& /*batch*/) override {
    throw Error("a unit whose tokens travel runs by stages");
  }

  Departure depart(const Tensor& activation, const Batch& batch) override {
    Routed stream{activation, Tensor()};
    if (carries_sums()) stream = parted(activation, batch.inputs, hidden_);
    const Tensor tokens = half_.tokens_of(stream.hidden);
    const Routing routing = half_.routed(tokens, carries_sums() ? &stream.sums : nullptr);
    Departure departure;
    departure.slots = token_slots(routing, share_);
    departure.rows = athanor::depart(tokens, departure.slots, experts_.per_token);
    departure.home = {at::alias(stream.hidden), routing.weights};
    if (carries_sums()) departure.home.push_back(stream.sums);
    if (half_.has_shared()) departure.home.push_back(tokens);
    return departure;
  }

  Tensor run_part(const Tensor& rows, const Tensor& ends) override {
    return half_.experts(rows, arrived_routing(ends, rows));
  }

  Tensor arrive(const std::vector<Tensor>& home, const TokenSlots& slots, const Tensor& rows,
                const Batch& /*batch*/) override {
    const Tensor& x = home[0];
    const Tensor routed = half_.with_shared(athanor::arrive(rows, home[1], slots), home.back());
    const Tensor hidden = half_.added(x, routed);
    return carries_sums() ? joined({hidden, home[2]}) : hidden;
  }

 private:
  [[nodiscard]] bool carries_sums() const { return experts_.balance_loss_factor > 0; }

  ExpertsConfig experts_;
  std::int64_t hidden_;
  ExpertShare share_;
  ExpertsHalf half_;
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
    LanguageModelConfig of_block = config;
    of_block.sliding_window = window_of(config, layer);
    return std::make_unique<RotaryHalf>(unit, of_block, inner);
  }
  if (dense) return std::make_unique<DenseHalf>(unit, config);
  return std::make_unique<ExpertsHalf>(unit, config, 0, experts.number);
}

}  // namespace

std::shared_ptr<LanguageUnit> make_travelling_experts(const Unit& part, std::string prefix,
                                                      const LanguageModelConfig& config,
                                                      DataType dtype, const ExpertShare& share) {
  return std::make_shared<TravellingExperts>(part, std::move(prefix), config, dtype, share);
}

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
