// SPDX-License-Identifier: Apache-2.0
// Models of images and text: a tower of images before a decoder.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/families/tensors.hpp"

#include <string_view>

namespace athanor::families {

void add_llama4(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_llava(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_qwen2_vl(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_qwen3_5(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_qwen3_vl(const ConfigReader& config, std::string_view head, ModelBuilder& model);
void add_qwen3_vl_moe(const ConfigReader& config, std::string_view head, ModelBuilder& model);

}  // namespace athanor::families
