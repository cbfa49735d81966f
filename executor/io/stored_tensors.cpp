// SPDX-License-Identifier: Apache-2.0
#include "executor/io/stored_tensors.hpp"

#include "sim/model/language_models.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace athanor {
namespace {

/// Names the stacked tensor that an expert's matrix belongs to; nothing for any other parameter.
std::string stack_of(std::string_view name, const ExpertNames& names) {
  const std::size_t experts = name.find("experts.");
  if (experts == std::string_view::npos) return "";
  const bool is_down = name.ends_with("." + names.down + ".weight");
  return std::string(name.substr(0, experts)) +
         (is_down ? "output_linear.weight" : "input_linear.weight");
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const Architecture& architecture, const Unit& unit) {
  std::vector<StoredTensor> stored;
  const auto& config = architecture.language_model;
  const bool stacks = config && config->model_type == "granitemoe";
  const ExpertNames names = stacks ? expert_names(config->model_type) : ExpertNames();
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const Parameter& parameter = unit.parameters[i];
    const std::string stack = stacks ? stack_of(parameter.name, names) : "";
    if (stack.empty()) {
      stored.push_back({parameter, i, 1});
    } else if (!stored.empty() && stored.back().tensor.name == stack) {
      ++stored.back().count;
    } else {
      stored.push_back({{stack, parameter.shape}, i, 1});
    }
  }
  for (StoredTensor& each : stored) {
    if (each.count == 1) continue;
    const auto matrices = static_cast<std::int64_t>(each.count);
    const std::vector<std::int64_t> matrix = each.tensor.shape;
    const std::int64_t experts = config->experts.number;
    each.tensor.shape = {experts, matrices / experts * matrix[0], matrix[1]};
  }
  return stored;
}

}  // namespace athanor
