// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/cache_slots.hpp"
#include "sim/model/language_models.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace athanor {
namespace {

TEST_CASE("parameter counts are the published ones") {
  const std::map<std::string, std::int64_t> published{{"gpt2", 124439808},
                                                      {"gpt2-medium", 354823168},
                                                      {"gpt2-large", 774030080},
                                                      {"gpt2-xl", 1557611200},
                                                      {"opt-125m", 125239296},
                                                      {"opt-1.3b", 1315758080},
                                                      {"opt-2.7b", 2651596800},
                                                      {"opt-6.7b", 6658473984},
                                                      {"llama-3-8b", 8030261248},
                                                      {"llama-3-70b", 70553706496},
                                                      {"qwen3-0.6b", 596049920},
                                                      {"qwen3-1.7b", 1720574976},
                                                      {"qwen3-4b", 4022468096},
                                                      {"qwen3-8b", 8190735360},
                                                      {"qwen3-14b", 14768307200},
                                                      {"qwen3-32b", 32762123264},
                                                      {"qwen3-30b-a3b", 30532122624},
                                                      {"qwen3-235b-a22b", 235093634560}};
  for (const auto& [name, count] : published) {
    INFO(name);
    CHECK(load_architecture(name).num_parameters() == count);
  }
}

TEST_CASE("every built-in model is valid and has no parameter twice") {
  const std::vector<std::string> names = builtin_architectures();
  CHECK(names.size() == 28);
  CHECK(std::is_sorted(names.begin(), names.end()));
  for (const std::string& name : names) {
    INFO(name);
    CHECK_NOTHROW(load_architecture(name).validate(name));
  }
}

TEST_CASE("the shapes of Elixir's benchmark have their nominal sizes") {
  const std::map<std::string, double> nominal{
      {"gpt2-4b", 3.78e9}, {"gpt2-10b", 9.88e9}, {"gpt2-15b", 14.9e9}, {"gpt2-20b", 19.75e9}};
  for (const auto& [name, count] : nominal) {
    INFO(name);
    CHECK(static_cast<double>(load_architecture(name).num_parameters()) ==
          Catch::Approx(count).epsilon(0.005));
  }
}

TEST_CASE("units stand in execution order and blocks share a class") {
  const Architecture tiny = load_architecture("gpt2-tiny");
  REQUIRE(tiny.units.size() == 8);
  CHECK(tiny.units[0].name == "embedding");
  CHECK(tiny.units[1].name == "block.0");
  CHECK(tiny.units[6].name == "block.5");
  CHECK(tiny.units[7].name == "head");
  std::set<std::string> classes;
  for (const Unit& unit : tiny.units) {
    classes.insert(unit.unit_class);
  }
  CHECK(classes == std::set<std::string>{"block", "embedding", "head"});
}

std::vector<std::string> parameter_names(const std::vector<Unit>& units) {
  std::vector<std::string> names;
  for (const Unit& unit : units) {
    for (const Parameter& parameter : unit.parameters) names.push_back(parameter.name);
  }
  std::ranges::sort(names);
  return names;
}

TEST_CASE("two units of a split block have the parameters and FLOPs of the whole one") {
  for (const std::string& name : builtin_architectures()) {
    INFO(name);
    const Architecture whole = load_architecture(name);
    const Architecture split = with_blocks(whole, Blocks::Split);
    CHECK_NOTHROW(split.validate(name));
    CHECK(blocks_of(whole) == Blocks::Whole);
    CHECK(blocks_of(split) == Blocks::Split);
    const auto layers = static_cast<std::size_t>(whole.language_model->num_layers);
    REQUIRE(split.units.size() == 2 * layers + 2);
    CHECK(parameter_names(split.units) == parameter_names(whole.units));
    CHECK(split.model_flops_per_token(512) == Catch::Approx(whole.model_flops_per_token(512)));
    for (std::size_t layer = 0; layer < layers; ++layer) {
      const std::vector<Unit> halves(split.units.begin() + 1 + 2 * layer,
                                     split.units.begin() + 3 + 2 * layer);
      CHECK(parameter_names(halves) == parameter_names({whole.units[1 + layer]}));
    }
    CHECK(parameter_names(with_blocks(split, Blocks::Whole).units) == parameter_names(whole.units));
  }
}

TEST_CASE("attention is one class in all blocks of a mixture, behind it experts or a perceptron") {
  LanguageModelConfig config = *load_architecture("qwen3-30b-a3b").language_model;
  config.num_layers = 2;
  config.experts.dense_blocks = {1};
  const Architecture split = make_architecture("mixture", config, Blocks::Split);
  std::vector<std::string> units;
  for (const Unit& unit : split.units) units.push_back(unit.name + ": " + unit.unit_class);
  CHECK(units == std::vector<std::string>{"embedding: embedding", "block.0.attention: attention",
                                          "block.0.experts: experts",
                                          "block.1.attention: attention", "block.1.mlp: mlp",
                                          "head: head"});
}

TEST_CASE("a model without a language model's blocks cannot be split") {
  CHECK_THROWS_AS(with_blocks(Architecture{"mine", {}, {}}, Blocks::Split), InputError);
}

TEST_CASE("a slot of each class is enough where attention and what follows it come in turn") {
  const Architecture whole = load_architecture("gpt2");
  const Architecture split = with_blocks(whole, Blocks::Split);
  for (int depth = 0; depth < 5; ++depth) {
    CHECK(least_cache_slots(whole, depth) == depth + 1);
    CHECK(least_cache_slots(split, depth) == depth / 2 + 1);
  }
  CHECK(least_cache_slots(split, 1000) == 12);
}

TEST_CASE("a tied head borrows the embedding and owns no copy") {
  const std::map<std::string, std::string> owner{{"gpt2", "transformer.wte.weight"},
                                                 {"opt-125m", "model.decoder.embed_tokens.weight"},
                                                 {"qwen3-0.6b", "model.embed_tokens.weight"}};
  for (const auto& [name, parameter] : owner) {
    const Unit head = load_architecture(name).units.back();
    REQUIRE(head.borrows.size() == 1);
    CHECK(head.borrows[0].unit == 0);
    CHECK(head.borrows[0].parameter == parameter);
  }
  const Unit head = load_architecture("llama-3-8b").units.back();
  CHECK(head.borrows.empty());
  CHECK(head.parameters.back().name == "lm_head.weight");
}

TEST_CASE("model FLOPs of a tied gpt2 are 6 N + 6 L h s over its matrices") {
  const Architecture architecture = load_architecture("gpt2-4b");
  const double h = 3072;
  const double layers = 32;
  const double sequence = 1024;
  const double matrices = 12 * layers * h * h + 50257 * h;
  CHECK(architecture.model_flops_per_token(1024) ==
        Catch::Approx(6 * matrices + 6 * layers * h * sequence).epsilon(1e-12));
}

TEST_CASE("grouped queries cost fewer matrix FLOPs and the same scores") {
  const Architecture architecture = load_architecture("llama-3-8b");
  const double h = 4096;
  const double block = h * h * 2 + 2 * h * 1024 + 3 * h * 14336;
  CHECK(architecture.units[1].forward_flops_per_token == 2 * block);
  CHECK(architecture.units[1].forward_flops_per_token_per_context == 2 * h);
}

TEST_CASE("a sliding window caps the attention FLOPs") {
  LanguageModelConfig config = *load_architecture("llama-3-8b").language_model;
  config.model_type = "mistral";
  const Architecture full = make_architecture("full", config);
  config.sliding_window = 1024;
  const Architecture windowed = make_architecture("windowed", config);
  CHECK(windowed.model_flops_per_token(1024) == full.model_flops_per_token(1024));
  // Each of 4096 tokens sees 1024 at most: the sum over tokens of min(i, w) is w s - w^2 / 2.
  const double scores = full.model_flops_per_token(4096) - full.model_flops_per_token(0);
  const double capped = windowed.model_flops_per_token(4096) - windowed.model_flops_per_token(0);
  CHECK(capped / scores ==
        Catch::Approx((1024.0 * 4096 - 1024.0 * 1024 / 2) / (4096.0 * 4096 / 2)).epsilon(1e-12));
}

TEST_CASE("impossible shapes are refused") {
  struct Case {
    const char* key;
    void (*spoil)(LanguageModelConfig&);
  };
  const std::vector<Case> cases{
      {"model_type", [](LanguageModelConfig& c) { c.model_type = "bert"; }},
      {"vocab_size", [](LanguageModelConfig& c) { c.vocab_size = 0; }},
      {"hidden_size", [](LanguageModelConfig& c) { c.hidden_size = std::int64_t{1} << 40; }},
      {"num_layers", [](LanguageModelConfig& c) { c.num_layers = 1'000'000'000; }},
      {"num_kv_heads", [](LanguageModelConfig& c) { c.num_kv_heads = 3; }},
      {"num_kv_heads", [](LanguageModelConfig& c) { c.num_kv_heads = 64; }},
      {"head_dim", [](LanguageModelConfig& c) { c.head_dim = 127; }},
      {"norm_epsilon", [](LanguageModelConfig& c) { c.norm_epsilon = -1; }},
      {"rope_theta", [](LanguageModelConfig& c) { c.rope_theta = 0; }},
      {"activation", [](LanguageModelConfig& c) { c.activation = "relu"; }}};
  for (const Case& entry : cases) {
    INFO(entry.key);
    LanguageModelConfig config = *load_architecture("llama-3-8b").language_model;
    entry.spoil(config);
    const auto error = test::input_error([&] { validate(config, "c.json"); });
    CHECK(error.where() == std::string("c.json:") + entry.key);
  }
}

TEST_CASE("learned positions need heads that make up the hidden size, and biases") {
  LanguageModelConfig config = *load_architecture("gpt2").language_model;
  config.head_dim = 32;
  CHECK(test::input_error([&] { validate(config, "c"); }).where() == "c:head_dim");
  config = *load_architecture("opt-125m").language_model;
  config.mlp_bias = false;
  CHECK(test::input_error([&] { validate(config, "c"); }).where() == "c:attention_bias");
}

TEST_CASE("a name that is neither model nor file is refused with the known ones") {
  const auto error = test::input_error([] { (void)load_architecture("gpt5"); });
  CHECK(std::string(error.what()).find("gpt2-4b") != std::string::npos);
}

}  // namespace
}  // namespace athanor
