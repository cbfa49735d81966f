// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json, both ways, and models by name or path.
#pragma once

#include "sim/model/architecture.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// `where` stands for the file in messages. Throws InputError (file:key, value, way out).
[[nodiscard]] LanguageModelConfig parse_hf_config(std::string_view text, const std::string& where);

/// Reads a Hugging Face config.json. Throws InputError (file:key, value, way out).
[[nodiscard]] LanguageModelConfig read_hf_config(const std::string& path);

/// The config.json text that `transformers` needs to load weights of this shape.
[[nodiscard]] std::string write_hf_config(const LanguageModelConfig& config, DataType dtype);

/// `name_or_path`: a built-in name ("gpt2-4b"), a config.json, or a folder that holds one.
[[nodiscard]] Architecture load_architecture(const std::string& name_or_path);

}  // namespace athanor
