// SPDX-License-Identifier: Apache-2.0
#include "executor/units/language_family.hpp"

#include "executor/experts/balance_loss.hpp"
#include "executor/layers/head_loss.hpp"
#include "sim/model/language_models.hpp"

#include <fmt/format.h>

#include <functional>

namespace athanor {

namespace {

class Embedding final : public LanguageUnit {
 public:
  Embedding(const LanguageFamily& family, const Unit& unit, const LanguageModelConfig& c,
            DataType dtype)
      : LanguageUnit(unit, "", dtype),
        first_position_(family.first_position),
        experts_(c.experts),
        multiplier_(c.multipliers.embedding),
        tokens_(parameter(family.tokens, {c.vocab_size, c.hidden_size})) {
    if (family.has_learned_positions()) {
      positions_ = parameter(family.positions, {first_position_ + c.max_positions, c.hidden_size});
    }
  }

  torch::Tensor forward(torch::Tensor /*activation*/, const Batch& batch) override {
    torch::Tensor embedded = at::embedding(tokens_, batch.inputs);
    if (multiplier_ != 1) embedded = embedded * multiplier_;
    if (experts_.balance_loss_factor > 0) {
      return joined({embedded, no_sums(experts_.number, embedded)});
    }
    if (!positions_.defined()) return embedded;
    if (batch.packing && batch.packing->is_divided()) {
      const torch::Tensor table = positions_.slice(0, first_position_);
      return embedded + at::embedding(table, batch.packing->positions);
    }
    const std::int64_t end = first_position_ + batch.inputs.size(1);
    return embedded + positions_.slice(0, first_position_, end);
  }

  [[nodiscard]] const torch::Tensor& tokens() const noexcept { return tokens_; }

 private:
  std::int64_t first_position_;
  ExpertsConfig experts_;
  double multiplier_;
  torch::Tensor tokens_, positions_;
};

class Head final : public LanguageUnit {
 public:
  Head(const LanguageFamily& family, const Unit& unit, const LanguageModelConfig& c,
       const torch::Tensor& tokens, DataType dtype)
      : LanguageUnit(unit, "", dtype), config_(c), weight_(head_weight(c, tokens)) {
    if (family.norm == LanguageFamily::Norm::LayerNorm) {
      norm_ = layer_norm(family.final_norm, c);
    } else {
      norm_ = rms_norm(family.final_norm, c.hidden_size, c);
    }
  }

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    const double factor = config_.experts.balance_loss_factor;
    if (factor == 0) return loss(activation, batch);
    const Routed routed = parted(activation, batch.targets, config_.hidden_size);
    const std::int64_t blocks = config_.num_layers - std::ssize(config_.experts.dense_blocks);
    return loss(routed.hidden, batch) + factor * balance_loss(routed.sums, blocks);
  }

 private:
  [[nodiscard]] torch::Tensor loss(const torch::Tensor& hidden, const Batch& batch) const {
    torch::Tensor normal = norm_(hidden);
    // Dividing the product's input divides the product, and needs no pass over the logits.
    const double divisor = config_.multipliers.logits_divisor;
    if (divisor != 1) normal = normal / divisor;
    return next_token_loss(normal, weight_, batch.targets, batch.packing);
  }

  LanguageModelConfig config_;
  std::function<torch::Tensor(const torch::Tensor&)> norm_;
  torch::Tensor weight_;
};

/// Appends the units of block `layer`. `units` are those before it.
void add_block(const LanguageFamily& family, const Architecture& architecture, std::int64_t layer,
               DataType dtype, LanguageUnits& units) {
  const LanguageModelConfig& config = *architecture.language_model;
  const std::string prefix = fmt::format("{}{}.", family.block_prefix, layer);
  const auto add_unit = [&](const std::vector<Half>& halves) {
    units.push_back(std::make_shared<BlockUnit>(architecture.units.at(units.size()), prefix, config,
                                                layer, dtype, family.make_half, halves));
  };
  if (blocks_of(architecture) == Blocks::Split) {
    add_unit({Half::Attention});
    add_unit({Half::Behind});
  } else if (family.make_whole_block != nullptr) {
    units.push_back(
        family.make_whole_block(architecture.units.at(units.size()), prefix, config, dtype));
  } else {
    add_unit({Half::Attention, Half::Behind});
  }
}

}  // namespace

LanguageUnits make_units(const LanguageFamily& family, const Architecture& architecture,
                         DataType dtype) {
  const LanguageModelConfig& config = *architecture.language_model;
  const auto embedding =
      std::make_shared<Embedding>(family, architecture.units.front(), config, dtype);
  LanguageUnits units{embedding};
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    add_block(family, architecture, i, dtype, units);
  }
  units.push_back(std::make_shared<Head>(family, architecture.units.back(), config,
                                         embedding->tokens(), dtype));
  return units;
}

}  // namespace athanor
