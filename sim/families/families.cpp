// SPDX-License-Identifier: Apache-2.0
// The table of families.
#include "sim/families/families.hpp"

#include "sim/families/config_reader.hpp"
#include "sim/families/decoder.hpp"
#include "sim/families/dense.hpp"
#include "sim/families/encoders.hpp"
#include "sim/families/gated_delta.hpp"
#include "sim/families/image_classifiers.hpp"
#include "sim/families/mixtures.hpp"
#include "sim/families/multimodal.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <sstream>
#include <string_view>
#include <vector>

namespace athanor {
namespace {

using MakeDecoder = Decoder (*)(const ConfigReader&);
using AddUnits = void (*)(const ConfigReader&, std::string_view head, ModelBuilder&);

struct Family {
  std::string_view model_type;
  std::string_view stem;    ///< start of the classes' names
  std::string_view prefix;  ///< prefix of a decoder's parameters, below its head
  MakeDecoder decoder = nullptr;
  bool has_experts = false;
  AddUnits add = nullptr;  ///< for what is more than a decoder
  /// Ends of the classes' names; the first stands for a file that names no class.
  std::string_view heads = "ForCausalLM Model";
};

constexpr std::string_view kCausal = "ForCausalLM";
constexpr std::string_view kConditional = "ForConditionalGeneration";

constexpr std::array kFamilies{
    Family{"bloom", "Bloom", "transformer.", families::bloom},
    Family{"cohere", "Cohere", "model.", families::cohere},
    Family{"falcon", "Falcon", "transformer.", families::falcon},
    Family{"gemma", "Gemma", "model.", families::gemma},
    Family{"gemma2", "Gemma2", "model.", families::gemma2},
    Family{"gemma3_text", "Gemma3", "model.", families::gemma3},
    Family{"glm4", "Glm4", "model.", families::glm4},
    Family{"gpt_bigcode", "GPTBigCode", "transformer.", families::gpt_bigcode},
    Family{"gpt_neo", "GPTNeo", "transformer.", families::gpt_neo},
    Family{"gpt_neox", "GPTNeoX", "gpt_neox.", families::gpt_neox},
    Family{"gptj", "GPTJ", "transformer.", families::gptj},
    Family{"granite", "Granite", "model.", families::granite},
    Family{"mamba", "Mamba", "backbone.", families::mamba},
    Family{"mimo", "MiMo", "model.", families::mimo},
    Family{"ministral", "Ministral", "model.", families::ministral},
    Family{"olmo", "Olmo", "model.", families::olmo},
    Family{"olmo2", "Olmo2", "model.", families::olmo2},
    Family{"opt", "OPT", "model.", families::opt},
    Family{"phi", "Phi", "model.", families::phi},
    Family{"phi3", "Phi3", "model.", families::phi3},
    Family{"qwen3_5_text", "Qwen3_5", "model.", families::qwen3_5},
    Family{"smollm3", "SmolLM3", "model.", families::smollm3},
    Family{"stablelm", "StableLm", "model.", families::stablelm},
    Family{"starcoder2", "Starcoder2", "model.", families::starcoder2},
    Family{"dbrx", "Dbrx", "transformer.", families::dbrx, true},
    Family{"deepseek_v2", "DeepseekV2", "model.", families::deepseek_v2, true},
    Family{"deepseek_v3", "DeepseekV3", "model.", families::deepseek_v3, true},
    Family{"deepseek_v32", "DeepseekV32", "model.", families::deepseek_v32, true},
    Family{"glm_moe_dsa", "GlmMoeDsa", "model.", families::glm_moe_dsa, true},
    Family{"kimi_k2", "DeepseekV3", "model.", families::deepseek_v3, true},
    Family{"llama4_text", "Llama4", "model.", families::llama4_text, true},
    Family{"minimax_m2", "MiniMaxM2", "model.", families::minimax_m2, true},
    Family{"nemotron_h", "NemotronH", "model.", families::nemotron_h, true},
    Family{"phimoe", "Phimoe", "model.", families::phimoe, true},
    Family{"qwen3_next", "Qwen3Next", "model.", families::qwen3_next, true},
    Family{"bert", "Bert", "", nullptr, false, families::add_bert,
           "LMHeadModel ForMaskedLM ForPreTraining Model"},
    Family{"clip", "CLIP", "", nullptr, false, families::add_clip, "Model TextModel VisionModel"},
    Family{"dinov2", "Dinov2", "", nullptr, false, families::add_dinov2,
           "Model ForImageClassification"},
    Family{"llama4", "Llama4", "", nullptr, true, families::add_llama4, kConditional},
    Family{"llava", "Llava", "", nullptr, false, families::add_llava, kConditional},
    Family{"qwen2_vl", "Qwen2VL", "", nullptr, false, families::add_qwen2_vl, kConditional},
    Family{"qwen3_5", "Qwen3_5", "", nullptr, false, families::add_qwen3_5, kConditional},
    Family{"qwen3_vl", "Qwen3VL", "", nullptr, false, families::add_qwen3_vl, kConditional},
    Family{"qwen3_vl_moe", "Qwen3VLMoe", "", nullptr, true, families::add_qwen3_vl_moe,
           kConditional},
    Family{"roberta", "Roberta", "", nullptr, false, families::add_roberta,
           "ForCausalLM ForMaskedLM Model"},
    Family{"siglip", "Siglip", "", nullptr, false, families::add_siglip, "Model"},
    Family{"t5", "T5", "", nullptr, false, families::add_t5,
           "ForConditionalGeneration EncoderModel Model"},
    Family{"vit", "ViT", "", nullptr, false, families::add_vit, "Model ForImageClassification"},
    Family{"whisper", "Whisper", "", nullptr, false, families::add_whisper,
           "ForConditionalGeneration Model"},
};

const Family* family_of_type(std::string_view model_type) {
  const auto* const found = std::ranges::find(kFamilies, model_type, &Family::model_type);
  return found == kFamilies.end() ? nullptr : found;
}

/// Reads model_type; where a file has none, the type whose class `architectures` names.
std::string model_type_of(const nlohmann::json& config) {
  if (!config.is_object()) return "";
  const auto type = config.find("model_type");
  if (type != config.end()) return type->is_string() ? type->get<std::string>() : "";
  const auto classes = config.find("architectures");
  if (classes == config.end() || !classes->is_array() || classes->size() != 1) return "";
  const auto family = std::ranges::find_if(kFamilies, [&](const Family& f) {
    return classes->front() == fmt::format("{}{}", f.stem, kCausal);
  });
  return family == kFamilies.end() ? "" : std::string(family->model_type);
}

/// Whether this is a kind of opt that athanor does not train: projections, or norms behind blocks.
bool is_unusual_opt(const nlohmann::json& config) {
  const ConfigReader reader(config, ValuePath("config.json"));
  const std::int64_t hidden = reader.count("hidden_size", 768);
  return reader.count("word_embed_proj_dim", hidden) != hidden ||
         !reader.flag("do_layer_norm_before", true);
}

std::vector<std::string> classes_of(const Family& family) {
  std::vector<std::string> names;
  std::istringstream heads{std::string(family.heads)};
  for (std::string head; heads >> head;) names.push_back(fmt::format("{}{}", family.stem, head));
  return names;
}

/// Reads the class that `architectures` names, or takes the family's first.
std::string class_of(const ConfigReader& config, const Family& family) {
  const std::vector<std::string> known = classes_of(family);
  const std::vector<std::string> named = config.texts("architectures");
  if (named.empty()) return known.front();
  if (std::ranges::find(known, named.front()) == known.end()) {
    config.reject("architectures", fmt::format("the sizes of '{}' are not known", named.front()),
                  fmt::format("Known: {}.", fmt::join(known, ", ")));
  }
  return named.front();
}

void add_units(const ConfigReader& config, const Family& family, const std::string& class_name,
               ModelBuilder& model) {
  const std::string_view head = std::string_view(class_name).substr(family.stem.size());
  if (family.add != nullptr) return family.add(config, head, model);
  const bool bare = head == "Model";
  add_decoder(model, family.decoder(config), {bare ? "" : std::string(family.prefix), "", !bare});
}

}  // namespace

std::size_t num_known_families() noexcept { return kFamilies.size(); }

bool knows_sizes(const nlohmann::json& config) {
  const std::string model_type = model_type_of(config);
  if (model_type == "opt") return is_unusual_opt(config);
  return family_of_type(model_type) != nullptr;
}

Architecture make_known_architecture(const std::string& name, const nlohmann::json& config,
                                     const std::string& where) {
  const Family& family = *family_of_type(model_type_of(config));
  const ConfigReader reader(config, ValuePath(where));
  const std::string class_name = class_of(reader, family);
  ModelBuilder model(where);
  add_units(reader, family, class_name, model);
  Architecture architecture{name, std::nullopt, model.finish()};
  architecture.image_classifier = families::read_image_classifier(reader, class_name);
  if (!architecture.image_classifier) {
    architecture.known_sizes = {std::string(family.model_type), class_name, family.has_experts};
  }
  architecture.validate(where);
  return architecture;
}

}  // namespace athanor
