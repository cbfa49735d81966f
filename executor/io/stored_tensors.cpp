// SPDX-License-Identifier: Apache-2.0
#include "executor/io/stored_tensors.hpp"

#include "sim/model/language_models.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace athanor {
namespace {

/// Names the stacked tensor that an expert's parameter belongs to; nothing for any other parameter.
std::string stack_of(std::string_view name, const std::string& model_type) {
  constexpr std::string_view kExperts = "experts.";
  const std::size_t experts = name.find(kExperts);
  if (experts == std::string_view::npos) return "";
  const ExpertNames names = expert_names(model_type);
  const bool is_bias = name.ends_with(".bias");
  const bool is_down = name.ends_with("." + names.down + (is_bias ? ".bias" : ".weight"));
  if (model_type == "granitemoe") {
    return std::string(name.substr(0, experts)) +
           (is_down ? "output_linear.weight" : "input_linear.weight");
  }
  return std::string(name.substr(0, experts + kExperts.size())) +
         (is_down ? "down_proj" : "gate_up_proj") + (is_bias ? "_bias" : "");
}

/// Gives a stack of `stored.count` parameters of equal shape its own, and their order in it.
void stack(StoredTensor& stored, std::int64_t experts, bool in_turns) {
  std::vector<std::int64_t>& shape = stored.tensor.shape;
  const auto layers = static_cast<std::int64_t>(stored.count) / experts;
  const std::int64_t outputs = layers * shape[0];
  if (in_turns) stored.layers_in_turns = layers;
  if (shape.size() == 1) {
    shape = {experts, outputs};
  } else if (in_turns) {
    shape = {experts, shape[1], outputs};
  } else {
    shape = {experts, outputs, shape[1]};
  }
}

/// Calls body(parameter, its element, element of the file) for all elements of a tensor that has
/// layers in turns. It goes by tiles: files have the inputs first, and parameters the outputs.
template <typename Body>
void for_each_element(const StoredTensor& stored, const Unit& unit, const Body& body) {
  constexpr std::int64_t kTile = 32;
  const std::vector<std::int64_t>& shape = unit.parameters[stored.first].shape;
  const std::int64_t out = shape[0], in = shape.size() > 1 ? shape[1] : 1;
  const std::int64_t layers = stored.layers_in_turns;
  const auto experts = static_cast<std::int64_t>(stored.count) / layers;
  const auto tile = [&](std::int64_t expert, std::int64_t first_in, std::int64_t first_out) {
    for (std::int64_t i = first_in; i < std::min(first_in + kTile, in); ++i) {
      for (std::int64_t o = first_out; o < std::min(first_out + kTile, out); ++o) {
        for (std::int64_t layer = 0; layer < layers; ++layer) {
          const std::int64_t at = stored.outputs_first
                                      ? ((expert * out + o) * layers + layer) * in + i
                                      : ((expert * in + i) * out + o) * layers + layer;
          body(static_cast<std::size_t>(expert * layers + layer),
               static_cast<std::size_t>(o * in + i), static_cast<std::size_t>(at));
        }
      }
    }
  };
  for (std::int64_t expert = 0; expert < experts; ++expert) {
    for (std::int64_t i = 0; i < in; i += kTile) {
      for (std::int64_t o = 0; o < out; o += kTile) tile(expert, i, o);
    }
  }
}

}  // namespace

std::vector<StoredTensor> stored_tensors(const Architecture& architecture, const Unit& unit) {
  std::vector<StoredTensor> stored;
  const auto& config = architecture.language_model;
  const bool in_turns = config && config->model_type == "gpt_oss";
  const bool stacks = in_turns || (config && config->model_type == "granitemoe");
  for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
    const Parameter& parameter = unit.parameters[i];
    const std::string name = stacks ? stack_of(parameter.name, config->model_type) : "";
    if (!name.empty() && !stored.empty() && stored.back().tensor.name == name) {
      ++stored.back().count;
    } else {
      stored.push_back({{name.empty() ? parameter.name : name, parameter.shape}, i, 1});
    }
  }
  for (StoredTensor& each : stored) {
    const bool is_stack = each.tensor.name != unit.parameters[each.first].name;
    if (is_stack) stack(each, config->experts.number, in_turns);
  }
  return stored;
}

void take_apart(const StoredTensor& stored, const Unit& unit, std::span<const float> file,
                const std::vector<std::span<float>>& parameters) {
  if (stored.layers_in_turns > 0) {
    for_each_element(stored, unit, [&](std::size_t p, std::size_t element, std::size_t at) {
      parameters[p][element] = file[at];
    });
    return;
  }
  std::size_t at = 0;
  for (const std::span<float> parameter : parameters) {
    std::ranges::copy(file.subspan(at, parameter.size()), parameter.begin());
    at += parameter.size();
  }
}

void put_together(const StoredTensor& stored, const Unit& unit,
                  const std::vector<std::span<const float>>& parameters, std::span<float> file) {
  if (stored.layers_in_turns > 0) {
    for_each_element(stored, unit, [&](std::size_t p, std::size_t element, std::size_t at) {
      file[at] = parameters[p][element];
    });
    return;
  }
  std::size_t at = 0;
  for (const std::span<const float> parameter : parameters) {
    std::ranges::copy(parameter, file.subspan(at, parameter.size()).begin());
    at += parameter.size();
  }
}

}  // namespace athanor
