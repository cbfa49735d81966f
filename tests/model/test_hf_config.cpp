// SPDX-License-Identifier: Apache-2.0
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/hf_config.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <unistd.h>

#include <filesystem>

namespace athanor {
namespace {

namespace fs = std::filesystem;
using Catch::Matchers::ContainsSubstring;

constexpr const char* kGpt2 = R"({"model_type": "gpt2", "vocab_size": 50257, "n_embd": 768,
  "n_layer": 12, "n_head": 12, "n_positions": 1024, "n_ctx": 1024, "resid_pdrop": 0.1})";
constexpr const char* kOpt = R"({"model_type": "opt", "vocab_size": 50272, "hidden_size": 768,
  "word_embed_proj_dim": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "ffn_dim": 3072,
  "max_position_embeddings": 2048, "do_layer_norm_before": true, "activation_function": "relu"})";
constexpr const char* kLlama = R"({"model_type": "llama", "vocab_size": 32000, "hidden_size": 4096,
  "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": null,
  "head_dim": null, "intermediate_size": 11008, "max_position_embeddings": 4096,
  "hidden_act": "silu", "rms_norm_eps": 1e-05, "rope_scaling": null})";

LanguageModelConfig parse(const std::string& text) { return parse_hf_config(text, "input.json"); }

void read(const std::string& text) { (void)parse(text); }

LanguageModelConfig parse_llama_like(const std::string& model_type,
                                     const std::vector<test::Break>& edits) {
  std::string text = test::broken(kLlama, {"/model_type", '"' + model_type + '"', ""});
  for (const test::Break& edit : edits) {
    text = test::broken(text, edit);
  }
  return parse(text);
}

TEST_CASE("gpt2: missing keys take the family's defaults") {
  const LanguageModelConfig config = parse(kGpt2);
  CHECK(config.intermediate_size == 3072);
  CHECK(config.head_dim == 64);
  CHECK(config.activation == "gelu_new");
  CHECK(config.tie_word_embeddings);
  CHECK(make_architecture("gpt2", config).num_parameters() == 124439808);
}

TEST_CASE("opt: positions start at row 2") {
  const Architecture architecture = make_architecture("opt", parse(kOpt));
  CHECK(architecture.num_parameters() == 125239296);
  CHECK(architecture.units[0].parameters[1].shape == std::vector<std::int64_t>{2050, 768});
}

TEST_CASE("llama: null heads and widths are derived") {
  const LanguageModelConfig config = parse(kLlama);
  CHECK(config.num_kv_heads == 32);
  CHECK(config.head_dim == 128);
  CHECK(config.rope_theta == 10000.0);
  CHECK_FALSE(config.tie_word_embeddings);
  CHECK(make_architecture("llama-2-7b", config).num_parameters() == 6738415616);
}

TEST_CASE("rotary positions are read from old and new keys") {
  CHECK(parse_llama_like("llama", {{"/rope_theta", "5e5", ""}}).rope_theta == 5e5);
  CHECK(parse_llama_like("llama",
                         {{"/rope_parameters", R"({"rope_type":"default","rope_theta":1e6})", ""}})
            .rope_theta == 1e6);
  CHECK_NOTHROW(parse_llama_like("llama", {{"/rope_scaling", R"({"type":"default"})", ""}}));
  CHECK_NOTHROW(parse_llama_like("llama", {{"/architectures", R"(["LlamaModel"])", ""}}));
}

TEST_CASE("missing keys mean what they mean to transformers, and null is another matter") {
  const auto without = [](const char* model_type, const char* key) {
    return parse_llama_like(model_type, {{key, "", ""}});
  };
  CHECK(without("mistral", "/num_key_value_heads").num_kv_heads == 8);
  CHECK(parse_llama_like("mistral", {}).num_kv_heads == 32);
  CHECK(without("llama", "/num_key_value_heads").num_kv_heads == 32);
  const test::Break fewer_heads{"/num_attention_heads", "64", ""};
  CHECK(parse_llama_like("qwen3", {fewer_heads, {"/head_dim", "", ""}}).head_dim == 128);
  CHECK(parse_llama_like("qwen3", {fewer_heads}).head_dim == 64);
  CHECK(parse_llama_like("qwen2", {fewer_heads, {"/num_key_value_heads", "", ""}}).num_kv_heads ==
        32);
  CHECK(without("qwen2", "/rms_norm_eps").norm_epsilon == 1e-6);
}

TEST_CASE("the factor of longrope is its own, or the ratio of positions") {
  const std::string factors = ", \"short_factor\": [1" + [] {
    std::string ones;
    for (int i = 1; i < 64; ++i) ones += ", 1";
    return ones + "], \"long_factor\": [1" + ones + "]";
  }();
  const auto factor = [&](const std::string& keys, const std::vector<test::Break>& beside = {}) {
    std::vector<test::Break> edits = beside;
    edits.push_back({"/rope_scaling", R"({"rope_type": "longrope")" + keys + factors + "}", ""});
    return parse_llama_like("llama", edits).rope_scaling.factor;
  };
  CHECK(factor(R"(, "original_max_position_embeddings": 1024)") == 4.0);
  CHECK(factor(R"(, "original_max_position_embeddings": 1024, "factor": 3.0)") == 3.0);
  CHECK(factor(R"(, "original_max_position_embeddings": 4096, "factor": 3.0)") == 3.0);
  CHECK(factor(R"(, "factor": 3.0)") == 3.0);
  const test::Break beside{"/original_max_position_embeddings", "2048", ""};
  CHECK(factor(R"(, "factor": 3.0)", {beside}) == 2.0);
}

TEST_CASE("biases follow the family") {
  CHECK(parse_llama_like("qwen2", {}).attention_bias);
  CHECK_FALSE(parse_llama_like("qwen2", {}).attention_output_bias);
  CHECK_FALSE(parse_llama_like("qwen3", {}).attention_bias);
  CHECK(parse_llama_like("qwen3", {{"/attention_bias", "true", ""}}).attention_output_bias);
  CHECK(parse_llama_like("llama", {{"/mlp_bias", "true", ""}}).mlp_bias);
  CHECK_FALSE(parse_llama_like("mistral", {{"/attention_bias", "true", ""}}).attention_bias);
}

TEST_CASE("sliding windows follow the family") {
  CHECK(parse_llama_like("mistral", {}).sliding_window == 4096);
  CHECK(parse_llama_like("mistral", {{"/sliding_window", "null", ""}}).sliding_window == 0);
  CHECK(parse_llama_like("mistral", {{"/sliding_window", "99", ""}}).sliding_window == 99);
  CHECK(parse_llama_like("llama", {{"/sliding_window", "99", ""}}).sliding_window == 0);
  const test::Break use{"/use_sliding_window", "true", ""};
  const test::Break all{"/max_window_layers", "0", ""};
  const test::Break none{"/max_window_layers", "32", ""};
  const test::Break types{"/layer_types", R"(["sliding_attention", "sliding_attention"])", ""};
  const test::Break window{"/sliding_window", "77", ""};
  CHECK(parse_llama_like("qwen2", {window}).sliding_window == 0);
  CHECK(parse_llama_like("qwen2", {use, none, window}).sliding_window == 0);
  CHECK(parse_llama_like("qwen2", {use, all, window}).sliding_window == 77);
  CHECK(parse_llama_like("qwen3", {use, types, window}).sliding_window == 77);
}

TEST_CASE("a broken llama config is refused by key") {
  test::check_rejects(
      kLlama,
      {{"/model_type", "\"phimoe2\"", "model_type"},
       {"/model_type", "", "model_type"},
       {"/vocab_size", "\"32000\"", "vocab_size"},
       {"/vocab_size", "-1", "vocab_size"},
       {"/hidden_size", "NaN", "hidden_size"},
       {"/hidden_size", "99999999999999999999", "hidden_size"},
       {"/num_hidden_layers", "1000000000", "num_hidden_layers"},
       {"/num_attention_heads", "7", "num_attention_heads"},
       {"/num_key_value_heads", "5", "num_key_value_heads"},
       {"/rms_norm_eps", "-1.0", "rms_norm_eps"},
       {"/rope_theta", "0", "rope_theta"},
       {"/rope_scaling", R"({"rope_type": "mrope", "factor": 8.0})", "rope_scaling.rope_type"},
       {"/rope_scaling", R"({"rope_type": "llama3", "factor": 8.0})",
        "rope_scaling.original_max_position_embeddings"},
       {"/rope_scaling", R"({"type": "linear"})", "rope_scaling.factor"},
       {"/rope_scaling", R"({"type": "linear", "factor": -1.0})", "rope_scaling.factor"},
       {"/rope_scaling",
        R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 4.0, "high_freq_factor": 1.0,
            "original_max_position_embeddings": 8})",
        "rope_scaling.high_freq_factor"},
       {"/rope_scaling", R"({"type": "longrope", "short_factor": [1.0], "long_factor": [1.0]})",
        "rope_scaling.short_factor"},
       {"/rope_parameters", R"({"rope_type": "yarn"})", "rope_parameters.factor"},
       {"/rope_parameters", R"({"rope_type": "default", "partial_rotary_factor": 0.5})",
        "rope_parameters.partial_rotary_factor"},
       {"/rope_parameters", R"({"full_attention": {"rope_type": "default", "rope_theta": 1e6}})",
        "rope_parameters.full_attention"},
       {"/rope_scaling", R"({"factor": 8.0})", "rope_scaling.factor"},
       {"/is_causal", "false", "is_causal"},
       {"/use_bidirectional_attention", "true", "use_bidirectional_attention"},
       {"/architectures", R"(["LlamaForSequenceClassification"])", "architectures[0]"},
       {"/architectures", R"(["LlamaForTokenClassification"])", "architectures[0]"},
       {"/partial_rotary_factor", "0.5", "partial_rotary_factor"},
       {"/hidden_act", "\"gelu\"", "hidden_act"},
       {"/tie_word_embeddings", "1", "tie_word_embeddings"},
       {"/quantization_config", R"({"bits": 4})", "quantization_config"}},
      read);
}

TEST_CASE("settings that would change the mathematics are refused") {
  test::check_rejects(
      kGpt2,
      {{"/scale_attn_weights", "false", "scale_attn_weights"},
       {"/scale_attn_by_inverse_layer_idx", "true", "scale_attn_by_inverse_layer_idx"},
       {"/reorder_and_upcast_attn", "true", "reorder_and_upcast_attn"},
       {"/add_cross_attention", "true", "add_cross_attention"},
       {"/activation_function", "\"tanh\"", "activation_function"},
       {"/n_head", "5", "n_head"},
       {"/n_layer", "20000", "n_layer"},
       {"/is_causal", "false", "is_causal"},
       {"/n_inner", "0", "n_inner"}},
      read);
  test::check_rejects(kOpt,
                      {{"/do_layer_norm_before", "false", "do_layer_norm_before"},
                       {"/word_embed_proj_dim", "512", "word_embed_proj_dim"},
                       {"/enable_bias", "false", "enable_bias"},
                       {"/layer_norm_elementwise_affine", "false", "layer_norm_elementwise_affine"},
                       {"/_remove_final_layer_norm", "true", "_remove_final_layer_norm"},
                       {"/activation_function", "\"gelu_fast\"", "activation_function"}},
                      read);
  const std::string qwen = test::broken(test::broken(kLlama, {"/model_type", "\"qwen2\"", ""}),
                                        {"/use_sliding_window", "true", ""});
  test::check_rejects(
      qwen,
      {{"/max_window_layers", "16", "max_window_layers"},
       {"/layer_types", R"(["full_attention", "sliding_attention"])", "layer_types[1]"}},
      read);
}

TEST_CASE("a truncated config is refused") { test::check_rejects_truncated(kLlama, read); }

TEST_CASE("a config is read back as it was written, for every built-in model") {
  for (const std::string& name : builtin_architectures()) {
    INFO(name);
    const LanguageModelConfig written = *load_architecture(name).language_model;
    const std::string text = write_hf_config(written, DataType::BFloat16);
    CHECK(write_hf_config(parse(text), DataType::BFloat16) == text);
    const Architecture architecture = make_architecture(name, parse(text));
    CHECK(architecture.num_parameters() == load_architecture(name).num_parameters());
  }
}

TEST_CASE("windows and biases are read back") {
  for (const char* model_type : {"mistral", "qwen2", "qwen3"}) {
    LanguageModelConfig config = parse_llama_like(model_type, {});
    for (const std::int64_t window : {0, 99}) {
      config.sliding_window = window;
      const LanguageModelConfig back = parse(write_hf_config(config, DataType::Float32));
      CHECK(back.sliding_window == window);
      CHECK(back.attention_bias == config.attention_bias);
    }
  }
}

TEST_CASE("a folder and its config.json name the same model") {
  const fs::path folder =
      fs::temp_directory_path() / ("athanor-model-" + std::to_string(::getpid()));
  fs::create_directories(folder);
  write_file_atomically(folder / "config.json", kGpt2);
  fs::create_directories(folder / "snapshots");
  CHECK_THROWS_WITH(load_architecture(folder / "snapshots"),
                    ContainsSubstring("is a folder without a config.json"));
  CHECK_THROWS_WITH(load_architecture("Qwen/Qwen2.5-0.5B"), ContainsSubstring("hf download"));
  const Architecture from_folder = load_architecture(folder);
  const Architecture from_file = load_architecture(folder / "config.json");
  fs::remove_all(folder);
  CHECK(from_folder.name == folder.filename());
  CHECK(from_file.name == from_folder.name);
  CHECK(from_file.num_parameters() == 124439808);
}

TEST_CASE("scalings of rotary positions survive config.json and the profile") {
  for (const char* scaling :
       {R"({"rope_type": "linear", "factor": 4.0})", R"({"type": "dynamic", "factor": 2.0})",
        R"({"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192})",
        R"({"rope_type": "yarn", "factor": 4.0, "beta_fast": 16, "truncate": false,
            "original_max_position_embeddings": 512, "mscale": 0.7, "mscale_all_dim": 1.1})"}) {
    CAPTURE(scaling);
    const LanguageModelConfig config = parse_llama_like("llama", {{"/rope_scaling", scaling, ""}});
    const std::string text = text_of(config.rope_scaling);
    CHECK_FALSE(text.empty());
    const LanguageModelConfig again =
        parse_hf_config(write_hf_config(config, DataType::Float32), "config.json");
    CHECK(text_of(again.rope_scaling) == text);
  }
  CHECK(text_of(parse_llama_like("llama", {}).rope_scaling).empty());
}

}  // namespace
}  // namespace athanor
