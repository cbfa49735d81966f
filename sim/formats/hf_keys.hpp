// SPDX-License-Identifier: Apache-2.0
// Names of LanguageModelConfig's fields in config.json. Internal to this folder.
#pragma once

#include <string>
#include <string_view>

namespace athanor {

/// Key of `field` in a config.json of `model_type`: "num_layers" is "n_layer" in gpt2.
[[nodiscard]] std::string hf_key(std::string_view model_type, std::string_view field);

}  // namespace athanor
