// SPDX-License-Identifier: Apache-2.0
// Hugging Face config.json from text in memory; architecture.hpp has the reader of files.
#pragma once

#include "sim/model/architecture.hpp"

#include <string>
#include <string_view>

namespace athanor {

/// `where` stands for the file in messages. Throws InputError (file:key, value, way out).
[[nodiscard]] LanguageModelConfig parse_hf_config(std::string_view text, const std::string& where);

}  // namespace athanor
