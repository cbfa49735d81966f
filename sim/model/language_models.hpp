// SPDX-License-Identifier: Apache-2.0
// Families of language models that athanor knows.
#pragma once

#include "sim/model/architecture.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Hugging Face model types that athanor knows.
inline constexpr std::array<std::string_view, 12> kModelTypes{
    "gpt2",    "opt",       "llama",     "mistral", "qwen2",      "qwen3",
    "mixtral", "qwen2_moe", "qwen3_moe", "olmoe",   "granitemoe", "gpt_oss"};

/// Units that a block becomes.
enum class Blocks {
  Whole,  ///< one
  Split,  ///< two: attention, and the perceptron or the experts behind it
};

/// Class of the units that are attention, where blocks are split. It ends their names too.
inline constexpr std::string_view kAttentionClass = "attention";
/// Class of those with full attention, in a model whose other blocks have a window.
inline constexpr std::string_view kFullAttentionClass = "full_attention";

/// Whether units of this class are attention and nothing else.
[[nodiscard]] bool is_attention(std::string_view unit_class) noexcept;

/// Makes the units of a language model, with its blocks whole or split. The two units of a split
/// block have the parameters of the whole one, in the same order.
[[nodiscard]] Architecture make_architecture(const std::string& name,
                                             const LanguageModelConfig& config, Blocks blocks);

/// Returns how blocks are units of `architecture`: its units say so.
[[nodiscard]] Blocks blocks_of(const Architecture& architecture) noexcept;

/// Returns the same model with its blocks whole or split. Throws InputError where a model whose
/// blocks are to be split is no language model with units of athanor's own.
[[nodiscard]] Architecture with_blocks(const Architecture& architecture, Blocks blocks);

/// Whether positions are rotary (the llama family). All others learn theirs.
[[nodiscard]] bool has_rotary_positions(const LanguageModelConfig& config) noexcept;

/// Whether models of this type are mixtures of experts.
[[nodiscard]] bool has_experts(std::string_view model_type) noexcept;

/// Whether attention has sinks: a score for each head that no key has, and to which part of a
/// query's attention goes.
[[nodiscard]] bool has_sinks(std::string_view model_type) noexcept;

/// Whether a mixture's router and its experts' layers have biases.
[[nodiscard]] bool has_expert_biases(std::string_view model_type) noexcept;

/// Names of the modules that a mixture has in place of a perceptron, below the block's own prefix.
struct ExpertNames {
  std::string mixture;         ///< prefix of the router and of "experts.N."
  std::string gate, up, down;  ///< layers of one expert
  std::string router_layer = "gate";
  [[nodiscard]] std::string router() const { return mixture + router_layer; }
  [[nodiscard]] std::string expert(std::int64_t index) const;  ///< prefix of one expert's layers
};

[[nodiscard]] ExpertNames expert_names(std::string_view model_type);

/// Lists router, experts and shared expert of a block. All experts' gates and ups lie next to each
/// other, expert by expert, and behind them all downs: each of the two is one tensor [experts, out,
/// in] to a grouped product. Biases follow in the same order, where experts have them, and then the
/// router's.
[[nodiscard]] std::vector<Parameter> expert_parameters(const LanguageModelConfig& config,
                                                       const std::string& block_prefix);

/// FLOPs of one token in the matrices of `parameters`, which are a block's. Of experts they count
/// those that a token uses.
[[nodiscard]] double matrix_flops_per_token(const LanguageModelConfig& config,
                                            const std::vector<Parameter>& parameters);

/// Norms of queries and keys: none, one of each head, or one across all heads (olmoe).
enum class HeadNormKind { None, EachHead, AllHeads };
[[nodiscard]] HeadNormKind head_norms(const LanguageModelConfig& config) noexcept;

/// Hyperparameters of a built-in name; nothing for an unknown one.
[[nodiscard]] std::optional<LanguageModelConfig> builtin_config(const std::string& name);

}  // namespace athanor
