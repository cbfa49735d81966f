// SPDX-License-Identifier: Apache-2.0
#include "executor/units/initial_weights.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/split_mix.hpp"
#include "sim/model/chunk_layout.hpp"

#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <string_view>

namespace athanor {

namespace {

constexpr double kStandardDeviation = 0.02;  ///< initializer_range of every family's config

/// Hashes by FNV-1a, which gives one result on every platform.
std::uint64_t hash_name(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash;
}

/// GPT-2 scales what each block adds to the residual stream by 1 / sqrt(number of additions).
double standard_deviation(const LanguageModelConfig& config, std::string_view name) {
  if (config.model_type == "gpt2" && name.ends_with("c_proj.weight")) {
    return kStandardDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  }
  return kStandardDeviation;
}

void initialize(const LanguageModelConfig& config, const Parameter& parameter, std::uint64_t seed,
                torch::Tensor values) {
  if (parameter.name.ends_with(".bias")) {
    values.zero_();
  } else if (parameter.shape.size() == 1) {
    values.fill_(1.0);  // the weight of a norm
  } else {
    // LibTorch's generator uses the low 32 bits alone, so all 64 are spread over them.
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(
        split_mix_finalizer(seed ^ hash_name(parameter.name)));
    values.normal_(0.0, standard_deviation(config, parameter.name), generator);
  }
}

}  // namespace

void initial_weights(const Model& model, int unit, std::uint64_t seed, std::span<float> flat) {
  const torch::NoGradGuard no_grad;
  const Unit& description = model.architecture.units.at(unit);
  std::int64_t used = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(description, used);
  if (static_cast<std::int64_t>(flat.size()) < used) {
    throw Error(
        fmt::format("{}: {} elements of storage for {}", description.name, flat.size(), used));
  }
  std::fill(flat.begin(), flat.end(), 0.0F);
  const std::vector<torch::Tensor> given = model.units.at(unit)->initial_values();
  if (given.empty() && !description.parameters.empty() && !model.architecture.language_model) {
    throw Error(model.architecture.name + ": how fresh weights are drawn is not known");
  }
  for (std::size_t i = 0; i < description.parameters.size(); ++i) {
    const Parameter& parameter = description.parameters[i];
    const torch::Tensor values = torch::from_blob(flat.data() + offsets[i], parameter.shape);
    if (given.empty()) {
      initialize(model.architecture.language_model.value(), parameter, seed, values);
    } else {
      values.copy_(given.at(i));
    }
  }
}

}  // namespace athanor
