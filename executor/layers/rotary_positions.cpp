// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/rotary_positions.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace athanor {

namespace {

using Frequencies = std::vector<float>;

/// Returns the base of the frequencies. `dynamic` raises it for sequences beyond the trained
/// positions.
double base_of(const LanguageModelConfig& config, std::int64_t sequence) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type != "dynamic" || sequence <= scaling.original_positions) return config.rope_theta;
  const double longer =
      static_cast<double>(sequence) / static_cast<double>(scaling.original_positions);
  const auto dim = static_cast<double>(config.head_dim);
  return config.rope_theta *
         std::pow(scaling.factor * longer - (scaling.factor - 1), dim / (dim - 2));
}

Frequencies plain_frequencies(double base, std::int64_t head_dim) {
  Frequencies frequencies;
  for (std::int64_t i = 0; i < head_dim; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(head_dim);
    frequencies.push_back(1.0F / std::pow(static_cast<float>(base), exponent));
  }
  return frequencies;
}

/// Scales the frequencies of waves that are longer than a share of the trained positions, with a
/// smooth change.
float llama3_frequency(float plain, const RopeScaling& scaling) {
  const auto positions = static_cast<float>(scaling.original_positions);
  const auto low = static_cast<float>(scaling.low_frequency_factor);
  const auto high = static_cast<float>(scaling.high_frequency_factor);
  const auto factor = static_cast<float>(scaling.factor);
  const float wave = static_cast<float>(2 * std::numbers::pi) / plain;
  if (wave > positions / low) return plain / factor;
  if (wave < positions / high) return plain;
  const float smooth = (positions / wave - low) / (high - low);
  return (1 - smooth) * plain / factor + smooth * plain;
}

/// Returns the element at whose frequency the trained positions hold `turns` whole turns.
double element_of_turns(double turns, const LanguageModelConfig& config) {
  const auto positions = static_cast<double>(config.rope_scaling.original_positions);
  return static_cast<double>(config.head_dim) *
         std::log(positions / (turns * 2 * std::numbers::pi)) / (2 * std::log(config.rope_theta));
}

void scale_yarn(Frequencies& frequencies, const LanguageModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  double low = element_of_turns(scaling.beta_fast, config);
  double high = element_of_turns(scaling.beta_slow, config);
  if (scaling.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.head_dim - 1));
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    const double way = (static_cast<double>(i) - low) / (high - low);
    const auto ramp = static_cast<float>(std::clamp(way, 0.0, 1.0));
    const float plain = frequencies[i];
    frequencies[i] = plain / static_cast<float>(scaling.factor) * ramp + plain * (1 - ramp);
  }
}

void scale_longrope(Frequencies& frequencies, const RopeScaling& scaling, std::int64_t sequence) {
  const std::vector<double>& factors =
      sequence > scaling.original_positions ? scaling.long_factor : scaling.short_factor;
  for (std::size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] /= static_cast<float>(factors.at(i));
  }
}

void scale(Frequencies& frequencies, const LanguageModelConfig& config, std::int64_t sequence) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type == "yarn") return scale_yarn(frequencies, config);
  if (scaling.type == "longrope") return scale_longrope(frequencies, scaling, sequence);
  for (float& frequency : frequencies) {
    if (scaling.type == "linear") frequency /= static_cast<float>(scaling.factor);
    if (scaling.type == "llama3") frequency = llama3_frequency(frequency, scaling);
  }  // none; or dynamic, which changes the base
}

}  // namespace

RotaryFrequencies rotary_frequencies(std::int64_t sequence, const LanguageModelConfig& config) {
  Frequencies frequencies = plain_frequencies(base_of(config, sequence), config.head_dim);
  scale(frequencies, config, sequence);
  return {std::move(frequencies), config.rope_scaling.attention_factor};
}

RotaryTable rotary_table(std::int64_t sequence, const RotaryFrequencies& rotary,
                         const torch::Tensor& like) {
  const auto options = torch::TensorOptions().dtype(torch::kFloat32).device(like.device());
  const torch::Tensor frequencies = torch::tensor(rotary.frequencies).to(like.device());
  const torch::Tensor half = torch::outer(torch::arange(sequence, options), frequencies);
  const torch::Tensor angles = torch::cat({half, half}, 1);
  RotaryTable table{angles.cos(), angles.sin()};
  if (rotary.scale != 1) {
    table.cosines = table.cosines * rotary.scale;
    table.sines = table.sines * rotary.scale;
  }
  return {table.cosines.to(like.scalar_type()), table.sines.to(like.scalar_type())};
}

RotaryTable restarted(const RotaryTable& table, const std::optional<Packing>& packing) {
  if (!packing || !packing->is_divided()) return table;
  const auto at_positions = [&](const torch::Tensor& of_sequence) {
    return at::embedding(of_sequence, packing->positions).unsqueeze(1);
  };
  return {at_positions(table.cosines), at_positions(table.sines)};
}

torch::Tensor rotate(const torch::Tensor& x, const RotaryTable& table) {
  const std::vector<torch::Tensor> halves = x.chunk(2, -1);
  return x * table.cosines + torch::cat({-halves[1], halves[0]}, -1) * table.sines;
}

}  // namespace athanor
