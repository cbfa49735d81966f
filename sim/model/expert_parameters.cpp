// SPDX-License-Identifier: Apache-2.0
#include "sim/model/language_models.hpp"

#include <fmt/core.h>

#include <utility>

namespace athanor {

std::string ExpertNames::expert(std::int64_t index) const {
  return fmt::format("{}experts.{}.", mixture, index);
}

ExpertNames expert_names(std::string_view model_type) {
  if (model_type == "mixtral") return {"block_sparse_moe.", "w1", "w3", "w2"};
  return {"mlp.", "gate_proj", "up_proj", "down_proj"};
}

std::vector<Parameter> expert_parameters(const LanguageModelConfig& c,
                                         const std::string& block_prefix) {
  const ExpertNames names = expert_names(c.model_type);
  std::vector<Parameter> parameters;
  const auto add = [&](const std::string& name, std::int64_t out, std::int64_t in) {
    parameters.push_back({fmt::format("{}{}.weight", block_prefix, name), {out, in}});
  };
  const auto add_perceptron = [&](const std::string& prefix, std::int64_t inner) {
    add(prefix + names.gate, inner, c.hidden_size);
    add(prefix + names.up, inner, c.hidden_size);
  };
  add(names.router(), c.experts.number, c.hidden_size);
  for (std::int64_t i = 0; i < c.experts.number; ++i) {
    add_perceptron(names.expert(i), c.experts.intermediate_size);
  }
  for (std::int64_t i = 0; i < c.experts.number; ++i) {
    add(names.expert(i) + names.down, c.hidden_size, c.experts.intermediate_size);
  }
  if (c.experts.shared_intermediate_size > 0) {
    const std::string shared = names.mixture + "shared_expert.";
    add_perceptron(shared, c.experts.shared_intermediate_size);
    add(shared + names.down, c.hidden_size, c.experts.shared_intermediate_size);
    add(names.mixture + "shared_expert_gate", 1, c.hidden_size);
  }
  return parameters;
}

double matrix_flops_per_token(const LanguageModelConfig& config,
                              const std::vector<Parameter>& parameters) {
  double flops = 0;
  for (const Parameter& parameter : parameters) {
    if (parameter.shape.size() != 2) continue;
    const bool is_experts = parameter.name.find(".experts.") != std::string::npos;
    // A multiplication and an addition per element.
    flops += 2.0 * static_cast<double>(parameter.num_elements()) *
             (is_experts ? config.experts.share() : 1.0);
  }
  return flops;
}

}  // namespace athanor
