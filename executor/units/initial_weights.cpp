// SPDX-License-Identifier: Apache-2.0
#include "executor/units/initial_weights.hpp"

#include "executor/cpu/host_copy.hpp"
#include "executor/cpu/normal_values.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/split_mix.hpp"
#include "sim/model/chunk_layout.hpp"

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
double standard_deviation(const Architecture& architecture, std::string_view name) {
  if (!architecture.language_model) return kStandardDeviation;
  const LanguageModelConfig& config = *architecture.language_model;
  if (config.model_type == "gpt2" && name.ends_with("c_proj.weight")) {
    return kStandardDeviation / std::sqrt(2.0 * static_cast<double>(config.num_layers));
  }
  return kStandardDeviation;
}

/// The part of a parameter that lies in a range of flat storage.
struct Overlap {
  std::int64_t first = 0;  ///< the part's first element, counted in the parameter
  std::span<float> out;
};

Overlap overlap(const Parameter& parameter, std::int64_t parameter_offset, std::int64_t offset,
                std::span<float> out) {
  const std::int64_t begin = std::max(parameter_offset, offset);
  const std::int64_t end =
      std::min(parameter_offset + parameter.num_elements(), offset + std::ssize(out));
  if (begin >= end) return {};
  return {begin - parameter_offset, out.subspan(static_cast<std::size_t>(begin - offset),
                                                static_cast<std::size_t>(end - begin))};
}

/// The value of vectors but biases: the weights of norms, and what scales dinov2's blocks.
float vector_value(const Architecture& architecture, std::string_view name) {
  const bool scales = architecture.image_classifier && name.ends_with(".lambda1");
  return scales ? static_cast<float>(architecture.image_classifier->layer_scale) : 1.0F;
}

/// Whether the values are zero, as all of a range is already.
bool is_zero(std::string_view name) {
  return name.ends_with(".bias") || name.ends_with(".mask_token");
}

void initialize(const Architecture& architecture, const Parameter& parameter, std::uint64_t seed,
                const Overlap& part, int threads) {
  if (is_zero(parameter.name)) return;
  if (parameter.shape.size() == 1 && !parameter.name.ends_with(".sinks")) {
    return std::fill(part.out.begin(), part.out.end(), vector_value(architecture, parameter.name));
  }
  normal_values(split_mix_finalizer(seed ^ hash_name(parameter.name)), part.first,
                static_cast<float>(standard_deviation(architecture, parameter.name)), part.out,
                threads);
}

void copy_given(const torch::Tensor& given, const Overlap& part) {
  const std::int64_t elements = std::ssize(part.out);
  torch::from_blob(part.out.data(), {elements})
      .copy_(given.flatten().slice(0, part.first, part.first + elements));
}

}  // namespace

void initial_weights(const Model& model, int unit, std::uint64_t seed, std::int64_t offset,
                     std::span<float> out, int threads) {
  const torch::NoGradGuard no_grad;
  const Unit& description = model.architecture.units.at(unit);
  std::int64_t used = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(description, used);
  const std::vector<torch::Tensor> given = model.units.at(unit)->initial_values();
  const bool has_rule = model.architecture.language_model || model.architecture.image_classifier;
  if (given.empty() && !description.parameters.empty() && !has_rule) {
    throw Error(model.architecture.name + ": how fresh weights are drawn is not known");
  }
  host_clear(out.data(), std::ssize(std::as_bytes(out)), threads);
  for (std::size_t i = 0; i < description.parameters.size(); ++i) {
    const Parameter& parameter = description.parameters[i];
    const Overlap part = overlap(parameter, offsets[i], offset, out);
    if (part.out.empty()) continue;
    if (given.empty()) {
      initialize(model.architecture, parameter, seed, part, threads);
    } else {
      copy_given(given.at(i), part);
    }
  }
}

}  // namespace athanor
