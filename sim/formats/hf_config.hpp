// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json, both ways, and models by name or path.
#pragma once

#include "sim/model/architecture.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// Reads the text of a config.json. `where` stands for the file in messages. Throws InputError
/// (file:key, value, way out).
[[nodiscard]] LanguageModelConfig parse_hf_config(std::string_view text, const std::string& where);

/// Reads a Hugging Face config.json. Throws InputError (file:key, value, way out).
[[nodiscard]] LanguageModelConfig read_hf_config(const std::string& path);

/// Makes the architecture of the text of a config.json: of a model that athanor trains, or of one
/// whose sizes it knows. Throws InputError (file:key, value, way out).
[[nodiscard]] Architecture parse_architecture(const std::string& name, std::string_view text,
                                              const std::string& where);

/// Writes the config.json text that `transformers` needs to load weights of this shape.
[[nodiscard]] std::string write_hf_config(const LanguageModelConfig& config, DataType dtype);

/// Makes the architecture of a built-in name ("gpt2-4b"), a config.json, or a folder that holds
/// one. Throws InputError where there is no such model.
[[nodiscard]] Architecture load_architecture(const std::string& name_or_path);

}  // namespace athanor
