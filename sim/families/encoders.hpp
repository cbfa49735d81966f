// SPDX-License-Identifier: Apache-2.0
// Encoders, encoder-decoders and models of images beside text. Each function adds the units of the
// class whose name ends in `head`.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/families/tensors.hpp"

#include <string>
#include <string_view>

namespace athanor::families {

void add_bert(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_roberta(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_t5(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_whisper(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_vit(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_dinov2(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_clip(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_siglip(const ConfigReader& config, std::string_view head, ModelBuilder& model);

/// Adds CLIP's tower of images, whose defaults are those of its own configuration.
void add_clip_vision(const ConfigReader& config, const std::string& prefix, ModelBuilder& model);
/// Number of classes that a head tells apart.
[[nodiscard]] std::int64_t num_labels(const ConfigReader& config);
/// Width of each half of dinov2's gated perceptron, of a plain one that is `inner` wide.
[[nodiscard]] std::int64_t gated_width(std::int64_t inner);
/// Patches of a square image.
[[nodiscard]] std::int64_t num_patches(const ConfigReader& config, std::int64_t image,
                                       std::int64_t patch);

}  // namespace athanor::families
