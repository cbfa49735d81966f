// SPDX-License-Identifier: Apache-2.0
// A family of language models: the parameter names and the block that tell it from the others.
//
// Every family has the same outline: an embedding of tokens (and positions), equal blocks, a final
// norm and a projection to the vocabulary. A new family is one source that defines its block and
// its LanguageFamily, a declaration here and a row in language_model.cpp.
#pragma once

#include "executor/units/block.hpp"
#include "executor/units/language_unit.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

using LanguageUnits = std::vector<std::shared_ptr<LanguageUnit>>;

struct LanguageFamily {
  enum class Norm { LayerNorm, RmsNorm };
  /// Makes the unit of a whole block. `prefix` stands before the names of its parameters.
  using MakeBlock = std::shared_ptr<LanguageUnit> (*)(const Unit& unit, std::string prefix,
                                                      const LanguageModelConfig& config,
                                                      DataType dtype);

  std::string tokens;     ///< full name of the token table [vocabulary, hidden]
  std::string positions;  ///< full name of the position table; empty: positions are rotary
  std::int64_t first_position = 0;  ///< row of the position table that holds position 0
  std::string final_norm;           ///< full name of the norm before the head, without ".weight"
  Norm norm = Norm::LayerNorm;      ///< kind of the final norm
  std::string block_prefix;         ///< before a block's number, with the dot
  MakeHalf make_half = nullptr;     ///< makes either half of a block
  /// For families whose operators span both halves of a whole block; null: the halves in turn.
  MakeBlock make_whole_block = nullptr;

  [[nodiscard]] bool has_learned_positions() const noexcept { return !positions.empty(); }
};

/// LanguageFamily::make_whole_block of a family whose halves are linked.
template <typename Attention, typename Mlp>
std::shared_ptr<LanguageUnit> make_linked_block(const Unit& unit, std::string prefix,
                                                const LanguageModelConfig& config, DataType dtype) {
  return std::make_shared<LinkedBlock<Attention, Mlp>>(unit, std::move(prefix), config, dtype);
}

/// LanguageFamily::make_half of such a family.
template <typename Attention, typename Mlp>
std::unique_ptr<BlockHalf> make_linked_half(LanguageUnit& unit, const LanguageModelConfig& config,
                                            std::int64_t /*layer*/, Half half) {
  if (half == Half::Attention) return std::make_unique<Attention>(unit, config);
  return std::make_unique<Mlp>(unit, config);
}

/// Makes the experts' half of a block of which a rank holds `part`. `prefix` is the block's.
[[nodiscard]] std::shared_ptr<LanguageUnit> make_travelling_experts(
    const Unit& part, std::string prefix, const LanguageModelConfig& config, DataType dtype,
    const ExpertShare& share);

/// Makes half a block of the llama family, of whose split tensors a rank holds `part`. `prefix` is
/// the block's.
[[nodiscard]] std::shared_ptr<LanguageUnit> make_split_half(const Unit& part, std::string prefix,
                                                            const LanguageModelConfig& config,
                                                            DataType dtype, int ranks);

/// One module per unit of `architecture`, whose language model must be of `family`. Throws Error
/// when a parameter that the family needs is missing or has another shape.
[[nodiscard]] LanguageUnits make_units(const LanguageFamily& family,
                                       const Architecture& architecture, DataType dtype);

// Each family is defined in the source of its name: gpt2_units.cpp, ..
[[nodiscard]] const LanguageFamily& gpt2_family();
[[nodiscard]] const LanguageFamily& opt_family();
[[nodiscard]] const LanguageFamily& llama_family();    ///< llama, mistral, qwen2 and qwen3
[[nodiscard]] const LanguageFamily& mixture_family();  ///< models with experts

}  // namespace athanor
