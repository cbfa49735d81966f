// SPDX-License-Identifier: Apache-2.0
// Reader and writer of the architecture inside a profile.
#include "sim/formats/json_writer.hpp"

namespace athanor {
namespace {

OrderedJson json_of(const RopeScaling& s) {
  return {{"type", s.type},
          {"factor", s.factor},
          {"original_positions", s.original_positions},
          {"low_frequency_factor", s.low_frequency_factor},
          {"high_frequency_factor", s.high_frequency_factor},
          {"beta_fast", s.beta_fast},
          {"beta_slow", s.beta_slow},
          {"truncate", s.truncate},
          {"attention_factor", s.attention_factor},
          {"short_factor", s.short_factor},
          {"long_factor", s.long_factor}};
}

RopeScaling read_rope_scaling(JsonReader json) {
  const auto factors = [&](const char* key) {
    std::vector<double> numbers;
    for (const JsonReader& item : json.key(key).items()) numbers.push_back(item.number());
    return numbers;
  };
  RopeScaling s;
  s.type = json.key("type").name();
  s.factor = json.key("factor").number();
  s.original_positions = json.key("original_positions").integer(0);
  s.low_frequency_factor = json.key("low_frequency_factor").number();
  s.high_frequency_factor = json.key("high_frequency_factor").number();
  s.beta_fast = json.key("beta_fast").number();
  s.beta_slow = json.key("beta_slow").number();
  s.truncate = json.key("truncate").boolean();
  s.attention_factor = json.key("attention_factor").number();
  s.short_factor = factors("short_factor");
  s.long_factor = factors("long_factor");
  json.reject_other_keys();
  return s;
}

OrderedJson json_of(const ExpertsConfig& e) {
  OrderedJson json{{"number", e.number},
                   {"per_token", e.per_token},
                   {"intermediate_size", e.intermediate_size},
                   {"shared_intermediate_size", e.shared_intermediate_size},
                   {"normalized", e.normalized},
                   {"balance_loss_factor", e.balance_loss_factor},
                   {"dense_blocks", e.dense_blocks}};
  if (e.gate_limit > 0) json["gate_limit"] = e.gate_limit;
  return json;
}

std::vector<std::int64_t> read_blocks(const JsonReader& json) {
  std::vector<std::int64_t> blocks;
  for (const JsonReader& item : json.items()) blocks.push_back(item.integer(0));
  return blocks;
}

ExpertsConfig read_experts(JsonReader json) {
  ExpertsConfig e;
  e.number = json.key("number").integer(1);
  e.per_token = json.key("per_token").integer(1);
  e.intermediate_size = json.key("intermediate_size").integer(1);
  e.shared_intermediate_size = json.key("shared_intermediate_size").integer(0);
  e.normalized = json.key("normalized").boolean();
  e.balance_loss_factor = json.key("balance_loss_factor").number();
  e.dense_blocks = read_blocks(json.key("dense_blocks"));
  if (const auto limit = json.optional_key("gate_limit")) e.gate_limit = limit->number();
  json.reject_other_keys();
  return e;
}

OrderedJson json_of(const Multipliers& m) {
  return {{"embedding", m.embedding},
          {"attention", m.attention},
          {"residual", m.residual},
          {"logits_divisor", m.logits_divisor}};
}

Multipliers read_multipliers(JsonReader json) {
  Multipliers m;
  m.embedding = json.key("embedding").number();
  m.attention = json.key("attention").number();
  m.residual = json.key("residual").number();
  m.logits_divisor = json.key("logits_divisor").number();
  json.reject_other_keys();
  return m;
}

OrderedJson json_of(const LanguageModelConfig& c) {
  OrderedJson json{{"model_type", c.model_type},
                   {"vocab_size", c.vocab_size},
                   {"hidden_size", c.hidden_size},
                   {"num_layers", c.num_layers},
                   {"num_heads", c.num_heads},
                   {"num_kv_heads", c.num_kv_heads},
                   {"head_dim", c.head_dim},
                   {"intermediate_size", c.intermediate_size},
                   {"max_positions", c.max_positions},
                   {"norm_epsilon", c.norm_epsilon},
                   {"rope_theta", c.rope_theta},
                   {"sliding_window", c.sliding_window},
                   {"activation", c.activation},
                   {"tie_word_embeddings", c.tie_word_embeddings},
                   {"attention_bias", c.attention_bias},
                   {"attention_output_bias", c.attention_output_bias},
                   {"mlp_bias", c.mlp_bias}};
  if (!c.full_attention_blocks.empty()) json["full_attention_blocks"] = c.full_attention_blocks;
  if (!c.rope_scaling.is_none()) json["rope_scaling"] = json_of(c.rope_scaling);
  if (c.experts.exist()) json["experts"] = json_of(c.experts);
  if (c.multipliers != Multipliers{}) json["multipliers"] = json_of(c.multipliers);
  return json;
}

LanguageModelConfig read_language_model(JsonReader json) {
  LanguageModelConfig c;
  c.model_type = json.key("model_type").name();
  c.vocab_size = json.key("vocab_size").integer(1);
  c.hidden_size = json.key("hidden_size").integer(1);
  c.num_layers = json.key("num_layers").integer(1);
  c.num_heads = json.key("num_heads").integer(1);
  c.num_kv_heads = json.key("num_kv_heads").integer(1);
  c.head_dim = json.key("head_dim").integer(1);
  c.intermediate_size = json.key("intermediate_size").integer(1);
  c.max_positions = json.key("max_positions").integer(1);
  c.norm_epsilon = json.key("norm_epsilon").number();
  c.rope_theta = json.key("rope_theta").number();
  c.sliding_window = json.key("sliding_window").integer(0);
  c.activation = json.key("activation").name();
  c.tie_word_embeddings = json.key("tie_word_embeddings").boolean();
  c.attention_bias = json.key("attention_bias").boolean();
  c.attention_output_bias = json.key("attention_output_bias").boolean();
  c.mlp_bias = json.key("mlp_bias").boolean();
  if (const auto blocks = json.optional_key("full_attention_blocks")) {
    c.full_attention_blocks = read_blocks(*blocks);
  }
  if (const auto scaling = json.optional_key("rope_scaling")) {
    c.rope_scaling = read_rope_scaling(*scaling);
  }
  if (const auto experts = json.optional_key("experts")) c.experts = read_experts(*experts);
  if (const auto multipliers = json.optional_key("multipliers")) {
    c.multipliers = read_multipliers(*multipliers);
  }
  json.reject_other_keys();
  return c;
}

OrderedJson json_of(const Unit& unit) {
  OrderedJson parameters = OrderedJson::array();
  for (const Parameter& parameter : unit.parameters) {
    parameters.push_back({{"name", parameter.name}, {"shape", parameter.shape}});
  }
  OrderedJson borrows = OrderedJson::array();
  for (const Borrow& borrow : unit.borrows) {
    borrows.push_back({{"unit", borrow.unit}, {"parameter", borrow.parameter}});
  }
  return {{"name", unit.name},
          {"class", unit.unit_class},
          {"parameters", std::move(parameters)},
          {"borrows", std::move(borrows)},
          {"forward_flops_per_token", unit.forward_flops_per_token},
          {"forward_flops_per_token_per_context", unit.forward_flops_per_token_per_context}};
}

Parameter read_parameter(JsonReader json) {
  Parameter parameter;
  parameter.name = json.key("name").name();
  for (const JsonReader& dim : json.key("shape").items()) {
    parameter.shape.push_back(dim.integer(1));
  }
  json.reject_other_keys();
  return parameter;
}

Borrow read_borrow(JsonReader json) {
  Borrow borrow;
  borrow.unit = json.key("unit").small_integer(0);
  borrow.parameter = json.key("parameter").name();
  json.reject_other_keys();
  return borrow;
}

Unit read_unit(JsonReader json) {
  Unit unit;
  unit.name = json.key("name").name();
  unit.unit_class = json.key("class").name();
  for (const JsonReader& parameter : json.key("parameters").items()) {
    unit.parameters.push_back(read_parameter(parameter));
  }
  for (const JsonReader& borrow : json.key("borrows").items()) {
    unit.borrows.push_back(read_borrow(borrow));
  }
  unit.forward_flops_per_token = json.key("forward_flops_per_token").number();
  unit.forward_flops_per_token_per_context =
      json.key("forward_flops_per_token_per_context").number();
  json.reject_other_keys();
  return unit;
}

OrderedJson json_of(const TracedModel& traced) {
  return {{"model_type", traced.model_type},
          {"vocab_size", traced.vocab_size},
          {"sequence_length", traced.sequence_length},
          {"documents", traced.documents}};
}

TracedModel read_traced(JsonReader json) {
  TracedModel traced;
  traced.model_type = json.key("model_type").name();
  traced.vocab_size = json.key("vocab_size").integer(1);
  traced.sequence_length = json.key("sequence_length").integer(1);
  traced.documents = json.key("documents").boolean();
  json.reject_other_keys();
  return traced;
}

OrderedJson json_of(const ImageClassifierConfig& c) {
  return {{"model_type", c.model_type},
          {"hidden_size", c.hidden_size},
          {"num_layers", c.num_layers},
          {"num_heads", c.num_heads},
          {"intermediate_size", c.intermediate_size},
          {"image_size", c.image_size},
          {"patch_size", c.patch_size},
          {"num_channels", c.num_channels},
          {"num_labels", c.num_labels},
          {"norm_epsilon", c.norm_epsilon},
          {"activation", c.activation},
          {"qkv_bias", c.qkv_bias},
          {"gated", c.gated},
          {"mask_token", c.mask_token},
          {"layer_scale", c.layer_scale}};
}

ImageClassifierConfig read_image_classifier(JsonReader json) {
  ImageClassifierConfig c;
  c.model_type = json.key("model_type").name();
  c.hidden_size = json.key("hidden_size").integer(1);
  c.num_layers = json.key("num_layers").integer(1);
  c.num_heads = json.key("num_heads").integer(1);
  c.intermediate_size = json.key("intermediate_size").integer(1);
  c.image_size = json.key("image_size").integer(1);
  c.patch_size = json.key("patch_size").integer(1);
  c.num_channels = json.key("num_channels").integer(1);
  c.num_labels = json.key("num_labels").integer(1);
  c.norm_epsilon = json.key("norm_epsilon").number();
  c.activation = json.key("activation").name();
  c.qkv_bias = json.key("qkv_bias").boolean();
  c.gated = json.key("gated").boolean();
  c.mask_token = json.key("mask_token").boolean();
  c.layer_scale = json.key("layer_scale").number();
  json.reject_other_keys();
  return c;
}

}  // namespace

OrderedJson json_of(const Architecture& architecture) {
  OrderedJson units = OrderedJson::array();
  for (const Unit& unit : architecture.units) {
    units.push_back(json_of(unit));
  }
  OrderedJson language_model = nullptr;
  if (architecture.language_model) {
    language_model = json_of(*architecture.language_model);
  }
  OrderedJson json = {{"name", architecture.name}, {"language_model", std::move(language_model)}};
  if (architecture.traced) json["traced"] = json_of(*architecture.traced);
  if (architecture.image_classifier) {
    json["image_classifier"] = json_of(*architecture.image_classifier);
  }
  json["units"] = std::move(units);
  return json;
}

Architecture read_architecture(JsonReader json) {
  Architecture architecture;
  architecture.name = json.key("name").name();
  if (const auto language_model = json.optional_key("language_model")) {
    architecture.language_model = read_language_model(*language_model);
  }
  if (const auto traced = json.optional_key("traced")) architecture.traced = read_traced(*traced);
  if (const auto classifier = json.optional_key("image_classifier")) {
    architecture.image_classifier = read_image_classifier(*classifier);
  }
  for (const JsonReader& unit : json.key("units").items()) {
    architecture.units.push_back(read_unit(unit));
  }
  json.reject_other_keys();
  return architecture;
}

}  // namespace athanor
