// SPDX-License-Identifier: Apache-2.0
// The built-in language models as lists of units.
#include "executor/units/families.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

/// Any fixed value: only the shape and the spread of the ids matter to a profile.
constexpr std::uint64_t kBatchSeed = 20240520;

LanguageUnits make_units(const Architecture& architecture, DataType dtype) {
  const std::string& type = architecture.language_model->model_type;
  if (type == "gpt2") return make_gpt2_units(architecture, dtype);
  if (type == "opt") return make_opt_units(architecture, dtype);
  if (type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3") {
    return make_llama_units(architecture, dtype);
  }
  throw InputError(architecture.name + ":model_type", "no units for '" + type + "'",
                   "Use one of gpt2, opt, llama, mistral, qwen2, qwen3.");
}

bool has_learned_positions(const LanguageModelConfig& config) {
  return config.model_type == "gpt2" || config.model_type == "opt";
}

void check(const Architecture& architecture, std::int64_t sequence_length) {
  if (!architecture.language_model) {
    throw Error(architecture.name + ": the architecture is no language model");
  }
  const LanguageModelConfig& config = *architecture.language_model;
  if (static_cast<std::int64_t>(architecture.units.size()) != config.num_layers + 2) {
    throw Error(fmt::format("{}: {} units for {} layers; a language model has layers + 2",
                            architecture.name, architecture.units.size(), config.num_layers));
  }
  if (sequence_length < 1 ||
      (has_learned_positions(config) && sequence_length > config.max_positions)) {
    throw InputError(architecture.name + ":sequence_length",
                     fmt::format("{} tokens, and the model has positions 1 to {}", sequence_length,
                                 config.max_positions),
                     "Choose a sequence length within them.");
  }
}

}  // namespace

Model make_language_model(const Architecture& architecture, DataType dtype,
                          std::int64_t sequence_length) {
  check(architecture, sequence_length);
  Model model;
  model.architecture = architecture;
  model.dtype = dtype;
  for (const auto& unit : make_units(architecture, dtype)) {
    unit->require_all_used();
    model.units.push_back(unit);
  }
  const std::int64_t vocab_size = architecture.language_model->vocab_size;
  model.random_batch = [vocab_size, sequence_length](std::int64_t num_samples) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(kBatchSeed);
    const torch::Tensor tokens =
        torch::randint(0, vocab_size, {num_samples, sequence_length + 1}, generator, torch::kInt64);
    return Batch{tokens.slice(1, 0, sequence_length).contiguous(),
                 tokens.slice(1, 1, sequence_length + 1).contiguous()};
  };
  return model;
}

}  // namespace athanor
