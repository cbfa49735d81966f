// SPDX-License-Identifier: Apache-2.0
// Keys and defaults are those of transformers' configurations of mixtral, qwen2_moe, qwen3_moe,
// olmoe, granitemoe and gpt_oss.
#include "sim/formats/hf_experts.hpp"

#include "sim/formats/hf_keys.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <vector>

namespace athanor {
namespace {

constexpr const char* kMixtral = "mixtral";
constexpr double kGptOssLimit = 7;  ///< in transformers no setting, elsewhere "swiglu_limit"

bool is_granite(std::string_view model_type) { return model_type == "granitemoe"; }

bool is_gpt_oss(std::string_view model_type) { return model_type == "gpt_oss"; }

/// Whether a token's weights always have a sum of 1, and the model has local experts.
bool is_like_mixtral(std::string_view model_type) {
  return model_type == kMixtral || is_granite(model_type) || is_gpt_oss(model_type);
}

bool is_qwen(std::string_view model_type) { return model_type.starts_with("qwen"); }

/// Refuses a number that is there and is not 0.
void require_none(JsonReader& config, const char* key, const char* problem) {
  const auto value = config.optional_key(key);
  if (value && value->number() != 0) value->reject(problem, "Only models without it can be used.");
}

/// Lists the blocks with an ordinary perceptron: those named, and all but every "step"th.
std::vector<std::int64_t> read_dense_blocks(JsonReader& config, std::int64_t num_layers) {
  std::vector<std::int64_t> named;
  if (const auto list = config.optional_key("mlp_only_layers")) {
    for (const JsonReader& item : list->items()) named.push_back(item.integer(0));
  }
  const std::int64_t step = integer_or(config, "decoder_sparse_step", 1);
  std::vector<std::int64_t> dense;
  for (std::int64_t i = 0; i < num_layers; ++i) {
    if ((i + 1) % step != 0 || std::ranges::find(named, i) != named.end()) dense.push_back(i);
  }
  return dense;
}

/// Returns the factor of the balance loss. transformers adds that loss to the model's own only
/// where output_router_logits says so.
double read_balance_loss(JsonReader& config, std::string_view model_type) {
  const auto factor = config.optional_key("router_aux_loss_coef");
  const double fallback = model_type == "olmoe" ? 0.01 : is_gpt_oss(model_type) ? 0.9 : 0.001;
  const double value = factor ? factor->number() : fallback;
  return boolean_or(config, "output_router_logits", false) ? value : 0;
}

}  // namespace

std::string hf_expert_key(std::string_view model_type, std::string_view field) {
  if (field == "number") return is_like_mixtral(model_type) ? "num_local_experts" : "num_experts";
  if (field == "per_token") return "num_experts_per_tok";
  if (field == "intermediate_size" && is_qwen(model_type)) return "moe_intermediate_size";
  if (field == "shared_intermediate_size") return "shared_expert_intermediate_size";
  if (field == "normalized") return "norm_topk_prob";
  if (field == "balance_loss_factor") return "router_aux_loss_coef";
  if (field == "dense_blocks") return "mlp_only_layers";
  if (field == "gate_limit") return "swiglu_limit";
  return std::string(field);
}

ExpertsConfig read_hf_experts(JsonReader& config, const LanguageModelConfig& c) {
  const auto key = [&](const char* field) { return hf_expert_key(c.model_type, field); };
  ExpertsConfig experts;
  // transformers 5 writes num_local_experts for all families.
  const bool is_new = !config.has(key("number")) && config.has("num_local_experts");
  experts.number = config.key(is_new ? "num_local_experts" : key("number")).integer(1);
  experts.per_token = config.key(key("per_token")).integer(1);
  experts.intermediate_size =
      is_qwen(c.model_type) ? config.key(key("intermediate_size")).integer(1) : c.intermediate_size;
  experts.normalized =
      is_like_mixtral(c.model_type) || boolean_or(config, key("normalized"), false);
  experts.balance_loss_factor = read_balance_loss(config, c.model_type);
  if (is_qwen(c.model_type)) experts.dense_blocks = read_dense_blocks(config, c.num_layers);
  if (c.model_type == "qwen2_moe") {
    experts.shared_intermediate_size = config.key(key("shared_intermediate_size")).integer(1);
  }
  if (is_gpt_oss(c.model_type)) {
    experts.gate_limit = number_or(config, key("gate_limit"), kGptOssLimit);
  }
  require_none(config, "router_jitter_noise", "noise before the router is not supported");
  require_none(config, "clip_qkv", "limits of queries, keys and values are not supported");
  return experts;
}

void add_hf_experts(OrderedJson& json, const LanguageModelConfig& c) {
  const auto key = [&](const char* field) { return hf_expert_key(c.model_type, field); };
  json[key("number")] = c.experts.number;
  json[key("per_token")] = c.experts.per_token;
  if (is_qwen(c.model_type)) {
    json[key("intermediate_size")] = c.experts.intermediate_size;
    json["decoder_sparse_step"] = 1;
    json[key("dense_blocks")] = c.experts.dense_blocks;
  }
  if (!is_like_mixtral(c.model_type)) json[key("normalized")] = c.experts.normalized;
  if (c.model_type == "qwen2_moe") {
    json[key("shared_intermediate_size")] = c.experts.shared_intermediate_size;
  }
  if (is_gpt_oss(c.model_type)) json[key("gate_limit")] = c.experts.gate_limit;
  json["output_router_logits"] = c.experts.balance_loss_factor > 0;
  if (c.experts.balance_loss_factor > 0) {
    json[key("balance_loss_factor")] = c.experts.balance_loss_factor;
  }
}

std::string hf_multiplier_key(std::string_view field) {
  if (field == "logits_divisor") return "logits_scaling";
  return std::string(field) + "_multiplier";
}

Multipliers read_hf_multipliers(JsonReader& config, const LanguageModelConfig& c) {
  if (!is_granite(c.model_type)) return {};
  const auto number = [&](const char* field) {
    const auto value = config.optional_key(hf_multiplier_key(field));
    return value ? value->number() : 1.0;
  };
  return {number("embedding"), number("attention"), number("residual"), number("logits_divisor")};
}

void add_hf_multipliers(OrderedJson& json, const LanguageModelConfig& c) {
  if (!is_granite(c.model_type)) return;
  const Multipliers& m = c.multipliers;
  json[hf_multiplier_key("embedding")] = m.embedding;
  json[hf_multiplier_key("attention")] = m.attention;
  json[hf_multiplier_key("residual")] = m.residual;
  json[hf_multiplier_key("logits_divisor")] = m.logits_divisor;
}

}  // namespace athanor
