// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts that athanor trains: their config.json against published counts.
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/chunk_layout.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <string>

namespace athanor {
namespace {

constexpr const char* kMixtral = R"({"model_type": "mixtral", "vocab_size": 32000,
  "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8,
  "intermediate_size": 14336, "max_position_embeddings": 32768, "rms_norm_eps": 1e-05,
  "num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": null})";
constexpr const char* kQwen3 = R"({"model_type": "qwen3_moe", "vocab_size": 151936,
  "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4,
  "head_dim": 128, "intermediate_size": 6144, "max_position_embeddings": 40960,
  "rms_norm_eps": 1e-06, "num_experts": 128, "num_experts_per_tok": 8,
  "moe_intermediate_size": 768, "norm_topk_prob": true, "decoder_sparse_step": 1,
  "mlp_only_layers": [], "use_sliding_window": false, "max_window_layers": 48,
  "output_router_logits": false, "router_aux_loss_coef": 0.001})";
constexpr const char* kQwen2 = R"({"model_type": "qwen2_moe", "vocab_size": 151936,
  "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
  "num_key_value_heads": 16, "intermediate_size": 5632, "max_position_embeddings": 8192,
  "num_experts": 60, "num_experts_per_tok": 4, "moe_intermediate_size": 1408,
  "shared_expert_intermediate_size": 5632})";
// granite-3.0-1b-a400m-base.
constexpr const char* kGranite = R"({"model_type": "granitemoe", "vocab_size": 49155,
  "hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16,
  "num_key_value_heads": 8, "intermediate_size": 512, "max_position_embeddings": 4096,
  "num_local_experts": 32, "num_experts_per_tok": 8, "tie_word_embeddings": true,
  "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "residual_multiplier": 0.22,
  "logits_scaling": 6.0, "rope_theta": 10000, "rms_norm_eps": 1e-06, "rope_scaling": null})";
constexpr const char* kOlmoe = R"({"model_type": "olmoe", "vocab_size": 50304,
  "hidden_size": 2048, "num_hidden_layers": 16, "num_attention_heads": 16,
  "num_key_value_heads": 16, "intermediate_size": 1024, "max_position_embeddings": 4096,
  "num_experts": 64, "num_experts_per_tok": 8, "clip_qkv": null, "output_router_logits": true})";

LanguageModelConfig parse(const std::string& text) { return parse_hf_config(text, "input.json"); }

Architecture make(const std::string& text) { return parse_architecture("m", text, "config.json"); }

double forward_flops(const Architecture& architecture) {
  double flops = 0;
  for (const Unit& unit : architecture.units) flops += unit.forward_flops_per_token;
  return flops;
}

TEST_CASE("mixtures have their published numbers of parameters") {
  CHECK(make(kMixtral).num_parameters() == 46'702'792'704);  // Mixtral-8x7B
  CHECK(make(kQwen3).num_parameters() == 30'532'122'624);    // Qwen3-30B-A3B
  CHECK(make(kQwen2).num_parameters() == 14'315'784'192);    // Qwen1.5-MoE-A2.7B
  CHECK(make(kOlmoe).num_parameters() == 6'919'161'856);     // OLMoE-1B-7B
}

TEST_CASE("FLOPs of mixtures that train are those of the experts that a token uses") {
  // Mixtral uses 2 of 8 experts: 12.9e9 parameters a token, of which the table takes 0.13e9.
  CHECK(forward_flops(make(kMixtral)) == Catch::Approx(2 * 12.75e9).epsilon(0.001));
  // Qwen3-30B-A3B: 3.35e9 parameters a token, of which the table takes 0.31e9.
  CHECK(forward_flops(make(kQwen3)) == Catch::Approx(2 * 3.04e9).epsilon(0.003));
}

TEST_CASE("weights of all experts lie next to each other") {
  const Architecture architecture = make(kQwen3);
  const Unit& unit = architecture.units[1];
  std::int64_t elements = 0;
  const std::vector<std::int64_t> offsets = parameter_offsets(unit, elements);
  const auto offset_of = [&](const std::string& name) {
    const auto found = std::ranges::find(
        unit.parameters, "model.layers.0.mlp.experts." + name + ".weight", &Parameter::name);
    REQUIRE(found != unit.parameters.end());
    return offsets[static_cast<std::size_t>(found - unit.parameters.begin())];
  };
  constexpr std::int64_t kMatrix = 768 * 2048;
  const std::int64_t first = offset_of("0.gate_proj");
  for (const std::int64_t i : {0, 1, 77, 127}) {
    const std::string expert = std::to_string(i);
    CHECK(offset_of(expert + ".gate_proj") == first + 2 * i * kMatrix);
    CHECK(offset_of(expert + ".up_proj") == first + (2 * i + 1) * kMatrix);
    CHECK(offset_of(expert + ".down_proj") == first + (2 * 128 + i) * kMatrix);
  }
}

TEST_CASE("settings of experts follow transformers") {
  CHECK(parse(kMixtral).experts.normalized);
  CHECK(parse(kQwen3).experts.normalized);
  CHECK_FALSE(parse(kQwen2).experts.normalized);
  CHECK(parse(kQwen2).attention_bias);
  CHECK(parse(kQwen3).experts.balance_loss_factor == 0);
  CHECK(parse(kOlmoe).experts.balance_loss_factor == 0.01);
  const auto dense = [](const test::Break& edit) {
    return parse(test::broken(kQwen3, edit)).experts.dense_blocks;
  };
  CHECK(dense({"/mlp_only_layers", "[3, 1]", ""}) == std::vector<std::int64_t>{1, 3});
  CHECK(dense({"/decoder_sparse_step", "47", ""}).size() == 47);
  CHECK(parse(test::broken(kMixtral, {"/sliding_window", "77", ""})).sliding_window == 77);
}

TEST_CASE("granitemoe has multipliers, and all models of its family their own sizes") {
  const LanguageModelConfig config = parse(kGranite);
  const Multipliers expected{
      .embedding = 12, .attention = 0.015625, .residual = 0.22, .logits_divisor = 6};
  CHECK(config.multipliers == expected);
  CHECK(config.experts.normalized);
  CHECK(make(kGranite).num_parameters() == 1'334'628'352);
  CHECK(parse(kMixtral).multipliers == Multipliers{});
  // transformers' default of a missing key is 1, for attention as well.
  std::string without = kGranite;
  without.replace(without.find("attention_multiplier"), 20, "no_such_key_at_all__");
  CHECK(parse(without).multipliers.attention == 1);
  test::check_rejects(kGranite,
                      {{"/attention_multiplier", "0", "attention_multiplier"},
                       {"/logits_scaling", "-6.0", "logits_scaling"},
                       {"/embedding_multiplier", "\"a\"", "embedding_multiplier"},
                       {"/head_dim", "128", "head_dim"},
                       {"/num_local_experts", "4", "num_experts_per_tok"}},
                      [](const std::string& text) { (void)parse(text); });
}

TEST_CASE("a block without experts is a unit class of its own") {
  const Architecture architecture = make(test::broken(kQwen3, {"/mlp_only_layers", "[1]", ""}));
  CHECK(architecture.units[1].unit_class == "block");
  CHECK(architecture.units[2].unit_class == "dense_block");
  CHECK(architecture.units[2].parameters.size() == 11);
}

TEST_CASE("a mixture's config.json reads back") {
  const std::string text = GENERATE(kMixtral, kQwen3, kQwen2, kOlmoe, kGranite);
  const Architecture architecture = make(text);
  const std::string written = write_hf_config(*architecture.language_model, DataType::BFloat16);
  const Architecture back = make(written);
  CHECK(back.num_parameters() == architecture.num_parameters());
  CHECK(text_of(back.language_model->experts) == text_of(architecture.language_model->experts));
  CHECK(back.language_model->multipliers == architecture.language_model->multipliers);
  CHECK(write_hf_config(*back.language_model, DataType::BFloat16) == written);
}

TEST_CASE("experts that athanor has no code for are refused by key") {
  test::check_rejects(kQwen3,
                      {{"/num_experts", "0", "num_experts"},
                       {"/num_experts_per_tok", "129", "num_experts_per_tok"},
                       {"/num_experts", "100000", "num_experts"},
                       {"/moe_intermediate_size", "-1", "moe_intermediate_size"},
                       {"/decoder_sparse_step", "49", "mlp_only_layers"},
                       {"/router_aux_loss_coef", "\"a\"", "router_aux_loss_coef"}},
                      [](const std::string& text) { (void)parse(text); });
  test::check_rejects(kQwen2, {{"/use_sliding_window", "true", "use_sliding_window"}},
                      [](const std::string& text) { (void)parse(text); });
  test::check_rejects(kMixtral, {{"/router_jitter_noise", "0.1", "router_jitter_noise"}},
                      [](const std::string& text) { (void)parse(text); });
  test::check_rejects(kOlmoe, {{"/clip_qkv", "8.0", "clip_qkv"}},
                      [](const std::string& text) { (void)parse(text); });
}

}  // namespace
}  // namespace athanor
