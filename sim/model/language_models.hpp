// SPDX-License-Identifier: Apache-2.0
// Families of language models that athanor knows.
#pragma once

#include "sim/model/architecture.hpp"

#include <array>
#include <optional>
#include <string_view>

namespace athanor {

/// Hugging Face model types that athanor knows.
inline constexpr std::array<std::string_view, 6> kModelTypes{"gpt2",    "opt",   "llama",
                                                             "mistral", "qwen2", "qwen3"};

/// Whether positions are rotary (the llama family). All others learn theirs.
[[nodiscard]] bool has_rotary_positions(const LanguageModelConfig& config) noexcept;

/// Hyperparameters of a built-in name; nothing for an unknown one.
[[nodiscard]] std::optional<LanguageModelConfig> builtin_config(const std::string& name);

}  // namespace athanor
