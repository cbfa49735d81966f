// SPDX-License-Identifier: Apache-2.0
// Published model shapes that can be simulated without a config.json.
#include "sim/model/architecture.hpp"
#include "sim/model/language_models.hpp"

#include <algorithm>

namespace athanor {
namespace {

struct Gpt2Shape {
  std::int64_t hidden, layers, heads;
  std::int64_t vocab = 50257, positions = 1024;
};

struct OptShape {
  std::int64_t hidden, layers, heads;
};

struct LlamaShape {
  std::int64_t hidden, layers, heads, intermediate;
};

struct Qwen3Shape {
  std::int64_t hidden, layers, heads, intermediate;
  bool tied;
};

struct Qwen3MixtureShape {
  std::int64_t hidden, layers, heads, intermediate, of_expert;
};

template <typename Shape>
struct Named {
  std::string_view name;
  Shape shape;
};

// gpt2 to gpt2-xl are OpenAI's; 1b to 20b are the shapes of Elixir's benchmark; tiny reads bytes.
constexpr std::array<Named<Gpt2Shape>, 10> kGpt2Shapes{{
    {"gpt2", {768, 12, 12}},
    {"gpt2-medium", {1024, 24, 16}},
    {"gpt2-large", {1280, 36, 20}},
    {"gpt2-xl", {1600, 48, 25}},
    {"gpt2-1b", {1536, 32, 24}},
    {"gpt2-4b", {3072, 32, 24}},
    {"gpt2-10b", {4096, 48, 32}},
    {"gpt2-15b", {8192, 18, 64}},
    {"gpt2-20b", {8192, 24, 64}},
    {"gpt2-tiny", {192, 6, 6, 256, 256}},
}};

// opt-350m is left out: it normalizes after the residual and projects its embeddings.
constexpr std::array<Named<OptShape>, 8> kOptShapes{{
    {"opt-125m", {768, 12, 12}},
    {"opt-1.3b", {2048, 24, 32}},
    {"opt-2.7b", {2560, 32, 32}},
    {"opt-6.7b", {4096, 32, 32}},
    {"opt-13b", {5120, 40, 40}},
    {"opt-30b", {7168, 48, 56}},
    {"opt-66b", {9216, 64, 72}},
    {"opt-175b", {12288, 96, 96}},
}};

constexpr std::array<Named<LlamaShape>, 2> kLlama3Shapes{{
    {"llama-3-8b", {4096, 32, 32, 14336}},
    {"llama-3-70b", {8192, 80, 64, 28672}},
}};

constexpr std::array<Named<Qwen3Shape>, 6> kQwen3Shapes{{
    {"qwen3-0.6b", {1024, 28, 16, 3072, true}},
    {"qwen3-1.7b", {2048, 28, 16, 6144, true}},
    {"qwen3-4b", {2560, 36, 32, 9728, true}},
    {"qwen3-8b", {4096, 36, 32, 12288, false}},
    {"qwen3-14b", {5120, 40, 40, 17408, false}},
    {"qwen3-32b", {5120, 64, 64, 25600, false}},
}};

constexpr std::array<Named<Qwen3MixtureShape>, 2> kQwen3MixtureShapes{{
    {"qwen3-30b-a3b", {2048, 48, 32, 6144, 768}},
    {"qwen3-235b-a22b", {4096, 94, 64, 12288, 1536}},
}};

LanguageModelConfig with_learned_positions(const char* model_type, std::int64_t hidden,
                                           std::int64_t layers, std::int64_t heads) {
  LanguageModelConfig config;
  config.model_type = model_type;
  config.hidden_size = hidden;
  config.num_layers = layers;
  config.num_heads = heads;
  config.num_kv_heads = heads;
  config.head_dim = hidden / heads;
  config.intermediate_size = 4 * hidden;
  config.tie_word_embeddings = true;
  config.attention_bias = true;
  config.attention_output_bias = true;
  config.mlp_bias = true;
  return config;
}

LanguageModelConfig config_of(const Gpt2Shape& shape) {
  auto config = with_learned_positions("gpt2", shape.hidden, shape.layers, shape.heads);
  config.vocab_size = shape.vocab;
  config.max_positions = shape.positions;
  config.activation = "gelu_new";
  return config;
}

LanguageModelConfig config_of(const OptShape& shape) {
  auto config = with_learned_positions("opt", shape.hidden, shape.layers, shape.heads);
  config.vocab_size = 50272;
  config.max_positions = 2048;
  config.activation = "relu";
  return config;
}

LanguageModelConfig config_of(const LlamaShape& shape) {
  LanguageModelConfig config;
  config.model_type = "llama";
  config.vocab_size = 128256;
  config.hidden_size = shape.hidden;
  config.num_layers = shape.layers;
  config.num_heads = shape.heads;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.intermediate_size = shape.intermediate;
  config.max_positions = 8192;
  config.rope_theta = 500000.0;
  config.activation = "silu";
  return config;
}

LanguageModelConfig config_of(const Qwen3Shape& shape) {
  LanguageModelConfig config;
  config.model_type = "qwen3";
  config.vocab_size = 151936;
  config.hidden_size = shape.hidden;
  config.num_layers = shape.layers;
  config.num_heads = shape.heads;
  config.num_kv_heads = 8;
  config.head_dim = 128;
  config.intermediate_size = shape.intermediate;
  config.max_positions = 40960;
  config.norm_epsilon = 1e-6;
  config.rope_theta = 1000000.0;
  config.activation = "silu";
  config.tie_word_embeddings = shape.tied;
  return config;
}

LanguageModelConfig config_of(const Qwen3MixtureShape& s) {
  LanguageModelConfig config =
      config_of(Qwen3Shape{s.hidden, s.layers, s.heads, s.intermediate, /*tied=*/false});
  config.model_type = "qwen3_moe";
  config.num_kv_heads = 4;
  config.experts.number = 128;
  config.experts.per_token = 8;
  config.experts.intermediate_size = s.of_expert;
  config.experts.normalized = true;
  return config;
}

/// Calls `visit(name, shape)` for every built-in model.
template <typename Visit>
void for_each_builtin(const Visit& visit) {
  const auto visit_table = [&visit](const auto& table) {
    for (const auto& entry : table) {
      visit(entry.name, entry.shape);
    }
  };
  visit_table(kGpt2Shapes);
  visit_table(kOptShapes);
  visit_table(kLlama3Shapes);
  visit_table(kQwen3Shapes);
  visit_table(kQwen3MixtureShapes);
}

}  // namespace

std::optional<LanguageModelConfig> builtin_config(const std::string& name) {
  std::optional<LanguageModelConfig> found;
  for_each_builtin([&](std::string_view candidate, const auto& shape) {
    if (candidate == name) {
      found = config_of(shape);
    }
  });
  return found;
}

std::vector<std::string> builtin_architectures() {
  std::vector<std::string> names;
  for_each_builtin([&](std::string_view name, const auto&) { names.emplace_back(name); });
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace athanor
