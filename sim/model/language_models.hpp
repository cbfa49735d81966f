// SPDX-License-Identifier: Apache-2.0
// What the readers of this folder and the built-in shapes know about the model families.
#pragma once

#include "sim/model/architecture.hpp"

#include <array>
#include <optional>
#include <string_view>

namespace athanor {

/// Hugging Face model types that athanor knows.
inline constexpr std::array<std::string_view, 6> kModelTypes{"gpt2",    "opt",   "llama",
                                                             "mistral", "qwen2", "qwen3"};

/// Rotary positions (the llama family); otherwise positions are learned.
[[nodiscard]] bool has_rotary_positions(const LanguageModelConfig& config) noexcept;

/// The hyperparameters of a built-in name; nothing for an unknown one.
[[nodiscard]] std::optional<LanguageModelConfig> builtin_config(const std::string& name);

}  // namespace athanor
