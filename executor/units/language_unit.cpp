// SPDX-License-Identifier: Apache-2.0
#include "executor/units/language_unit.hpp"

#include "executor/units/torch_types.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace athanor {

namespace {

constexpr int kEmbeddingUnit = 0;

/// Replaces dots, which LibTorch does not allow in a registered name.
std::string registered_name(std::string name) {
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
}

}  // namespace

LanguageUnit::LanguageUnit(const Unit& unit, std::string prefix, DataType dtype)
    : unit_name_(unit.name), prefix_(std::move(prefix)) {
  for (const Parameter& parameter : unit.parameters) {
    torch::Tensor tensor = register_parameter(registered_name(parameter.name),
                                              torch::empty(parameter.shape, torch_dtype(dtype)));
    entries_.push_back({parameter.name, std::move(tensor)});
  }
}

torch::Tensor LanguageUnit::parameter(const std::string& name,
                                      std::initializer_list<std::int64_t> shape) {
  const std::string full = prefix_ + name;
  const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& e) { return e.name == full; });
  if (entry == entries_.end()) {
    throw Error(fmt::format("{}: the architecture has no parameter '{}'", unit_name_, full));
  }
  const at::IntArrayRef expected(shape);
  if (entry->tensor.sizes() != expected) {
    throw Error(fmt::format("{}: '{}' has shape [{}] in the architecture, the model needs [{}]",
                            unit_name_, full, fmt::join(entry->tensor.sizes(), ", "),
                            fmt::join(shape, ", ")));
  }
  entry->used = true;
  return entry->tensor;
}

void LanguageUnit::require_all_used() const {
  for (const Entry& entry : entries_) {
    if (!entry.used) {
      throw Error(fmt::format("{}: the architecture's parameter '{}' is unknown to the model",
                              unit_name_, entry.name));
    }
  }
}

Linear LanguageUnit::linear(const std::string& name, std::int64_t out, std::int64_t in, bool bias) {
  return {parameter(name + ".weight", {out, in}),
          bias ? parameter(name + ".bias", {out}) : torch::Tensor()};
}

Linear LanguageUnit::transposed_linear(const std::string& name, std::int64_t in, std::int64_t out) {
  return {parameter(name + ".weight", {in, out}), parameter(name + ".bias", {out}),
          Linear::Layout::InputsFirst};
}

LayerNorm LanguageUnit::layer_norm(const std::string& name, const LanguageModelConfig& config) {
  return {parameter(name + ".weight", {config.hidden_size}),
          parameter(name + ".bias", {config.hidden_size}), config.norm_epsilon};
}

RmsNorm LanguageUnit::rms_norm(const std::string& name, std::int64_t width,
                               const LanguageModelConfig& config) {
  return {parameter(name + ".weight", {width}), config.norm_epsilon};
}

torch::Tensor LanguageUnit::head_weight(const LanguageModelConfig& config,
                                        const torch::Tensor& tokens) {
  if (!config.tie_word_embeddings) {
    return parameter("lm_head.weight", {config.vocab_size, config.hidden_size});
  }
  borrowed_.emplace_back(kEmbeddingUnit, tokens);
  return tokens;
}

}  // namespace athanor
