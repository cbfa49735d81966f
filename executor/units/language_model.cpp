// SPDX-License-Identifier: Apache-2.0
#include "executor/units/language_model.hpp"

#include "executor/units/language_family.hpp"
#include "executor/units/random_tokens.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/language_models.hpp"
#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

namespace athanor {

namespace {

struct ModelType {
  std::string_view name;  ///< model_type in config.json
  const LanguageFamily& (*family)();
};
constexpr std::array<ModelType, kModelTypes.size()> kFamilies{{
    {"gpt2", &gpt2_family},
    {"opt", &opt_family},
    {"llama", &llama_family},
    {"mistral", &llama_family},
    {"qwen2", &llama_family},
    {"qwen3", &llama_family},
    {"mixtral", &mixture_family},
    {"qwen2_moe", &mixture_family},
    {"qwen3_moe", &mixture_family},
    {"olmoe", &mixture_family},
    {"granitemoe", &mixture_family},
    {"gpt_oss", &mixture_family},
}};

const LanguageFamily& family_of(const Architecture& architecture) {
  const std::string& name = architecture.language_model->model_type;
  const auto* const type = std::find_if(kFamilies.begin(), kFamilies.end(),
                                        [&](const ModelType& t) { return t.name == name; });
  if (type == kFamilies.end()) {
    throw InputError(architecture.name + ":model_type", "no units for '" + name + "'",
                     fmt::format("Use one of {}.", fmt::join(kModelTypes, ", ")));
  }
  return type->family();
}

void check_units(const Architecture& architecture) {
  require_units(architecture);
  if (!architecture.language_model) {
    throw Error(architecture.name + ": the architecture is no language model");
  }
  const std::int64_t layers = architecture.language_model->num_layers;
  const std::int64_t expected = layers * (blocks_of(architecture) == Blocks::Split ? 2 : 1) + 2;
  if (std::ssize(architecture.units) != expected) {
    throw Error(fmt::format("{}: {} units for {} layers; the model has {}", architecture.name,
                            architecture.units.size(), layers, expected));
  }
}

void check_sequence(const Architecture& architecture, const LanguageFamily& family,
                    std::int64_t sequence_length) {
  const std::int64_t positions = architecture.language_model->max_positions;
  if (sequence_length < 1 || (family.has_learned_positions() && sequence_length > positions)) {
    throw InputError(
        architecture.name + ":sequence_length",
        fmt::format("{} tokens, and the model has positions 1 to {}", sequence_length, positions),
        "Choose a sequence length within them.");
  }
}

std::shared_ptr<LanguageUnit> make_experts(const LanguageModelConfig& config, std::string prefix,
                                           DataType dtype, const Unit& part,
                                           const UnitShare& share) {
  const std::int64_t count = config.experts.number / share.ranks;
  return make_travelling_experts(part, std::move(prefix), config, dtype,
                                 {share.rank * count, count, share.ranks, share.capacity});
}

std::shared_ptr<LanguageUnit> make_split(const LanguageModelConfig& config, std::string prefix,
                                         DataType dtype, const Unit& part, const UnitShare& share) {
  return make_split_half(part, std::move(prefix), config, dtype, share.ranks);
}

/// Patterns under which halves of blocks run, and what makes a rank's part of one.
const std::array kParts{std::pair{&tokens_travel, &make_experts},
                        std::pair{&tensors_split, &make_split}};

/// Makes a rank's part of half a block. The embedding is unit 0, and each split block has two.
std::shared_ptr<UnitModule> make_part(const Architecture& architecture,
                                      const std::string& block_prefix, DataType dtype, int unit,
                                      const Unit& part, const UnitShare& share) {
  const Unit& whole = architecture.units.at(static_cast<std::size_t>(unit));
  for (const auto& [pattern, make] : kParts) {
    if (&pattern() != share.pattern || !share.pattern->suits(architecture, whole)) continue;
    const auto module =
        make(*architecture.language_model, fmt::format("{}{}.", block_prefix, (unit - 1) / 2),
             dtype, part, share);
    module->require_all_used();
    return module;
  }
  return nullptr;
}

}  // namespace

Model make_language_model(const Architecture& architecture, DataType dtype,
                          std::int64_t sequence_length) {
  check_units(architecture);
  const LanguageFamily& family = family_of(architecture);
  check_sequence(architecture, family, sequence_length);
  Model model;
  model.architecture = architecture;
  model.dtype = dtype;
  for (const auto& unit : make_units(family, architecture, dtype)) {
    unit->require_all_used();
    model.units.push_back(unit);
  }
  if (blocks_of(architecture) == Blocks::Split) {
    model.part_unit = [architecture, dtype, start = family.block_prefix](int unit, const Unit& part,
                                                                         const UnitShare& share) {
      return make_part(architecture, start, dtype, unit, part, share);
    };
  }
  model.random_batch = random_tokens(architecture.language_model->vocab_size, sequence_length);
  return model;
}

}  // namespace athanor
