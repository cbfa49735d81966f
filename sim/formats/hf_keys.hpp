// SPDX-License-Identifier: Apache-2.0
// What config.json calls the fields of LanguageModelConfig. Internal to this folder.
#pragma once

#include <string>
#include <string_view>

namespace athanor {

/// The key for `field` in a config.json of `model_type`: "num_layers" is "n_layer" in gpt2.
[[nodiscard]] std::string hf_key(std::string_view model_type, std::string_view field);

}  // namespace athanor
