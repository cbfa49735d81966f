// SPDX-License-Identifier: Apache-2.0
// Mixtures of experts that athanor trains: their config.json against published counts.
#include "sim/base/errors.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "sim/model/chunk_layout.hpp"
#include "sim/model/language_models.hpp"
#include "sim/patterns/tensors_split.hpp"
#include "sim/patterns/tokens_travel.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
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

// gpt-oss-20b, as it is published.
constexpr const char* kGptOss = R"({"model_type": "gpt_oss", "vocab_size": 201088,
  "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
  "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880,
  "max_position_embeddings": 131072, "num_local_experts": 32, "num_experts_per_tok": 4,
  "sliding_window": 128, "swiglu_limit": 7.0, "attention_bias": true, "rope_theta": 150000,
  "rms_norm_eps": 1e-05, "router_aux_loss_coef": 0.9, "output_router_logits": false,
  "layer_types": [
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention",
    "sliding_attention", "full_attention", "sliding_attention", "full_attention"],
  "rope_scaling": {"rope_type": "yarn", "factor": 32.0, "beta_fast": 32.0, "beta_slow": 1.0,
                   "original_max_position_embeddings": 4096, "truncate": false},
  "quantization_config": {"quant_method": "mxfp4"}})";

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
  CHECK(make(kGptOss).num_parameters() == 20'914'757'184);   // gpt-oss-20b
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
  CHECK(parse(kMixtral).rope_theta == 1e6);  // no key says so
  CHECK(parse(test::broken(kMixtral, {"/rms_norm_eps", "", ""})).norm_epsilon == 1e-5);
  CHECK(parse(test::broken(kOlmoe, {"/rms_norm_eps", "", ""})).norm_epsilon == 1e-5);
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

TEST_CASE("gpt_oss has transformers' defaults where its file says nothing") {
  const LanguageModelConfig said = parse(kGptOss);
  const LanguageModelConfig config = parse(R"({"model_type": "gpt_oss", "vocab_size": 201088,
    "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
    "intermediate_size": 2880, "max_position_embeddings": 131072, "num_local_experts": 32,
    "num_experts_per_tok": 4})");
  CHECK(write_hf_config(config, DataType::BFloat16) == write_hf_config(said, DataType::BFloat16));
  CHECK(config.attention_bias);
  CHECK(config.attention_output_bias);
  CHECK(config.experts.normalized);
  CHECK(config.experts.gate_limit == 7);
  CHECK(config.rope_scaling.attention_factor == Catch::Approx(0.1 * std::log(32.0) + 1));
  CHECK(config.full_attention_blocks.size() == 12);
  const auto edited = [](const std::string& key, const std::string& value) {
    return parse(test::broken(kGptOss, {key, value, ""}));
  };
  CHECK(edited("/output_router_logits", "true").experts.balance_loss_factor == 0.9);
  CHECK(edited("/swiglu_limit", "5.5").experts.gate_limit == 5.5);
  CHECK(text_of(edited("/swiglu_limit", "5.5").experts) != text_of(said.experts));
  CHECK(edited("/rope_scaling", "null").rope_scaling.is_none());
}

TEST_CASE("gpt_oss's blocks of either attention are a unit class each, and its windows count") {
  const Architecture whole = make(kGptOss);
  CHECK(whole.units[1].unit_class == "block");
  CHECK(whole.units[2].unit_class == "full_attention_block");
  const Architecture split = with_blocks(whole, Blocks::Split);
  CHECK(blocks_of(split) == Blocks::Split);
  CHECK(split.units[1].unit_class == kAttentionClass);
  CHECK(split.units[3].unit_class == kFullAttentionClass);
  CHECK(split.units[2].unit_class == split.units[4].unit_class);
  // 4 x 64 heads x 64 elements, half of them masked: half of the blocks see 128 tokens at most.
  const double of_token = 2.0 * 64 * 64;
  const double matrices = whole.model_flops_per_token(1) - 3 * 24 * of_token;
  const double seen = 12 * 4096 + 12 * (128 * (2 - 128.0 / 4096));
  CHECK(whole.model_flops_per_token(4096) == Catch::Approx(matrices + 3 * of_token * seen));
}

TEST_CASE("tokens of gpt_oss travel to its experts with their biases, and no tensor is split") {
  const Architecture split = with_blocks(make(kGptOss), Blocks::Split);
  const Unit &attention = split.units[1], &experts = split.units[2];
  CHECK(tokens_travel().suits(split, experts));
  CHECK(tokens_travel().divides(split, experts, 8));
  CHECK_FALSE(tensors_split().suits(split, attention));
  CHECK_FALSE(tensors_split().suits(split, experts));
  std::int64_t owned = 0, all = 0;
  for (const Parameter& parameter : part_of_rank(experts, tokens_travel(), 3, 8).parameters) {
    owned += parameter.name.find(".experts.") != std::string::npos ? parameter.num_elements() : 0;
  }
  for (const Parameter& parameter : experts.parameters) {
    all += parameter.name.find(".experts.") != std::string::npos ? parameter.num_elements() : 0;
  }
  CHECK(all == 32 * (3 * 2880 * 2880 + 3 * 2880));
  CHECK(owned == all / 8);
}

TEST_CASE("settings of gpt_oss that athanor has no code for are refused by key") {
  test::check_rejects(
      kGptOss,
      {{"/layer_types", R"(["full_attention"])", "layer_types"},
       {"/layer_types/3", R"("linear_attention")", "layer_types[3]"},
       {"/sliding_window", "null", "sliding_window"},
       {"/swiglu_limit", "0", "swiglu_limit"},
       {"/quantization_config/quant_method", R"("bitsandbytes")", "quantization_config"},
       {"/rope_scaling/rope_type", R"("ntk")", "rope_scaling.rope_type"}},
      [](const std::string& text) { (void)parse(text); });
}

TEST_CASE("a block without experts is a unit class of its own") {
  const Architecture architecture = make(test::broken(kQwen3, {"/mlp_only_layers", "[1]", ""}));
  CHECK(architecture.units[1].unit_class == "block");
  CHECK(architecture.units[2].unit_class == "dense_block");
  CHECK(architecture.units[2].parameters.size() == 11);
}

TEST_CASE("a mixture's config.json reads back") {
  const std::string text = GENERATE(kMixtral, kQwen3, kQwen2, kOlmoe, kGranite, kGptOss);
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
