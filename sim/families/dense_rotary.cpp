// SPDX-License-Identifier: Apache-2.0
// Dense decoders with rotary positions, whose modules are called as llama's.
#include "sim/families/dense.hpp"

#include <vector>

namespace athanor::families {
namespace {

constexpr const char* kPreFeedForward = "pre_feedforward_layernorm";
constexpr const char* kPostFeedForward = "post_feedforward_layernorm";

/// Block of attention and a gated perceptron, as llama's.
struct Block {
  std::vector<const char*> norms{kInputNorm, kPostAttentionNorm};
  Norm norm = Norm::Rms;
  bool head_norms = false;  ///< norms of queries and keys, over each head
  bool mlp_bias = false;
};

void add_norms(const Tensors& t, const Block& block, std::int64_t hidden) {
  for (const char* name : block.norms) t.norm(name, hidden, block.norm);
}

Decoder llama_like(const DecoderSizes& s, const Block& block) {
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_attention(t.in("self_attn"), s.attention);
    if (block.head_norms) add_head_norms(t.in("self_attn"), s.attention);
    add_gated_mlp(t.in("mlp"), s.hidden(), s.inner, block.mlp_bias);
    add_norms(t, block, s.hidden());
  });
  decoder.norm = block.norm;
  return decoder;
}

/// Adds to the blocks of `decoder`.
void extend(Decoder& decoder, AddBlock more) {
  decoder.block = [first = std::move(decoder.block), more = std::move(more)](const Tensors& t,
                                                                             std::int64_t index) {
    first(t, index);
    more(t, index);
  };
}

/// Reads sizes, and the biases of all four projections of attention.
DecoderSizes sizes_with_biases(const ConfigReader& config, const DecoderDefaults& defaults) {
  DecoderSizes s = read_sizes(config, defaults);
  s.attention.bias = s.attention.out_bias = config.flag("attention_bias", false);
  return s;
}

constexpr DecoderDefaults kLlama{32000, 4096, 11008, 32, 32, 0, 0, false};

}  // namespace

Decoder llama(const ConfigReader& config) {
  return llama_like(sizes_with_biases(config, kLlama),
                    {.mlp_bias = config.flag("mlp_bias", false)});
}

Decoder mistral(const ConfigReader& config) {
  return llama_like(read_sizes(config, {32000, 4096, 14336, 32, 32, 8, 0, false}), {});
}

Decoder ministral(const ConfigReader& config) { return mistral(config); }

Decoder qwen2(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {151936, 4096, 22016, 32, 32, 32, 0, false});
  s.attention.bias = true;
  return llama_like(s, {});
}

Decoder qwen2_vl_text(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {152064, 8192, 29568, 80, 64, 8, 0, false});
  s.attention.bias = true;
  return llama_like(s, {});
}

Decoder qwen3(const ConfigReader& config) {
  return llama_like(sizes_with_biases(config, {151936, 4096, 22016, 32, 32, 32, 128, false}),
                    {.head_norms = true});
}

Decoder mimo(const ConfigReader& config) {
  Decoder decoder = qwen2(config);
  const DecoderSizes s = read_sizes(config, {151936, 4096, 22016, 32, 32, 32, 0, false});
  const std::int64_t more = config.optional_count("num_nextn_predict_layers").value_or(0);
  if (more > kMaxBlocks) config.reject("num_nextn_predict_layers", "is too large", "Use fewer.");
  const AddBlock block = decoder.block;
  // Layers that predict further tokens lie behind the last block.
  decoder.more_of_head = [=](const Tensors& t) {
    for (std::int64_t i = 0; i < more; ++i) {
      const Tensors layer = t.in("mtp_layers", i);
      block(layer, i);
      for (const char* name : {"token_layernorm", "hidden_layernorm", "final_layernorm"}) {
        layer.norm(name, s.hidden());
      }
      layer.linear("input_proj", 2 * s.hidden(), s.hidden());
    }
  };
  return decoder;
}

Decoder gemma(const ConfigReader& config) {
  return llama_like(sizes_with_biases(config, {256000, 3072, 24576, 28, 16, 16, 256, true}), {});
}

Decoder gemma2(const ConfigReader& config) {
  return llama_like(sizes_with_biases(config, {256000, 2304, 9216, 26, 8, 4, 256, true}),
                    {.norms = {kInputNorm, kPostAttentionNorm, kPreFeedForward, kPostFeedForward}});
}

Decoder gemma3(const ConfigReader& config) {
  return llama_like(sizes_with_biases(config, {262208, 2304, 9216, 26, 8, 4, 256, true}),
                    {.norms = {kInputNorm, kPostAttentionNorm, kPreFeedForward, kPostFeedForward},
                     .head_norms = true});
}

Decoder granite(const ConfigReader& config) { return llama(config); }

Decoder smollm3(const ConfigReader& config) {
  return llama_like(sizes_with_biases(config, {128256, 2048, 11008, 36, 16, 4, 0, true}),
                    {.mlp_bias = config.flag("mlp_bias", false)});
}

Decoder olmo(const ConfigReader& config) {
  return llama_like(sizes_with_biases(config, {50304, 4096, 11008, 32, 32, 0, 0, false}),
                    {.norm = Norm::None});
}

Decoder olmo2(const ConfigReader& config) {
  const DecoderSizes s = sizes_with_biases(config, {50304, 4096, 11008, 32, 32, 0, 0, false});
  Decoder decoder = llama_like(s, {.norms = {kPostAttentionNorm, kPostFeedForward}});
  extend(decoder, [a = s.attention](const Tensors& t, std::int64_t) {
    t.in("self_attn").norm("q_norm", a.q_width());
    t.in("self_attn").norm("k_norm", a.kv_width());
  });
  return decoder;
}

Decoder stablelm(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {50304, 2560, 6912, 32, 32, 32, 0, false});
  s.attention.head_dim = config.share("num_attention_heads", s.hidden(), s.attention.heads);
  s.attention.bias = config.flag("use_qkv_bias", false);
  const bool parallel = config.flag("use_parallel_residual", false);
  Decoder decoder = llama_like(s, {.norms = {kInputNorm}, .norm = Norm::Layer});
  extend(decoder,
         [=, head_norms = config.flag("qk_layernorm", false)](const Tensors& t, std::int64_t) {
           if (!parallel) t.norm(kPostAttentionNorm, s.hidden(), Norm::Layer);
           if (!head_norms) return;
           const Tensors attention = t.in("self_attn");
           for (std::int64_t i = 0; i < s.attention.heads; ++i) {
             attention.in("q_layernorm").in("norms").norm(std::to_string(i), s.attention.head_dim);
           }
           for (std::int64_t i = 0; i < s.attention.kv_heads; ++i) {
             attention.in("k_layernorm").in("norms").norm(std::to_string(i), s.attention.head_dim);
           }
         });
  return decoder;
}

Decoder cohere(const ConfigReader& config) {
  const DecoderSizes s = sizes_with_biases(config, {256000, 8192, 22528, 40, 64, 0, 0, true});
  Decoder decoder = llama_like(s, {.norms = {kInputNorm}, .norm = Norm::LayerWithoutBias});
  if (!config.flag("use_qk_norm", false)) return decoder;
  extend(decoder, [a = s.attention](const Tensors& t, std::int64_t) {
    t.in("self_attn").vector("q_norm.weight", {a.heads, a.head_dim});
    t.in("self_attn").vector("k_norm.weight", {a.kv_heads, a.head_dim});
  });
  return decoder;
}

Decoder glm4(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {151552, 4096, 13696, 40, 32, 2, 128, false});
  s.attention.bias = config.flag("attention_bias", true);
  return decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_attention(t.in("self_attn"), s.attention);
    add_fused_gated_mlp(t.in("mlp"), s.hidden(), s.inner);
    add_norms(t,
              {.norms = {kInputNorm, kPostAttentionNorm, "post_self_attn_layernorm",
                         "post_mlp_layernorm"}},
              s.hidden());
  });
}

Decoder phi3(const ConfigReader& config) {
  const DecoderSizes s = read_sizes(config, {32064, 3072, 8192, 32, 32, 0, 0, false});
  return decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_fused_attention(t.in("self_attn"), s.attention, "qkv_proj", "o_proj");
    add_fused_gated_mlp(t.in("mlp"), s.hidden(), s.inner);
    add_norms(t, {}, s.hidden());
  });
}

Decoder phi(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {51200, 2048, 8192, 24, 32, 0, 0, false});
  s.attention.bias = s.attention.out_bias = true;
  const bool head_norms = config.flag("qk_layernorm", false);
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_attention(t.in("self_attn"), s.attention, "dense");
    add_mlp(t.in("mlp"), "fc1", "fc2", s.hidden(), s.inner);
    t.norm(kInputNorm, s.hidden(), Norm::Layer);
    if (!head_norms) return;
    t.in("self_attn").norm("q_layernorm", s.hidden() / s.attention.heads, Norm::Layer);
    t.in("self_attn").norm("k_layernorm", s.hidden() / s.attention.heads, Norm::Layer);
  });
  decoder.norm = Norm::Layer;
  decoder.head_bias = true;
  decoder.names.norm = "final_layernorm";
  return decoder;
}

Decoder starcoder2(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {49152, 3072, 12288, 30, 24, 2, 0, true});
  const bool bias = config.flag("use_bias", true);
  s.attention.bias = s.attention.out_bias = bias;
  Decoder decoder = decoder_of(s, [=](const Tensors& t, std::int64_t) {
    add_attention(t.in("self_attn"), s.attention);
    add_mlp(t.in("mlp"), "c_fc", "c_proj", s.hidden(), s.inner, bias);
    add_norms(t, {.norm = Norm::Layer}, s.hidden());
  });
  decoder.norm = Norm::Layer;
  return decoder;
}

}  // namespace athanor::families
