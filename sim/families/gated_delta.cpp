// SPDX-License-Identifier: Apache-2.0
#include "sim/families/gated_delta.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor::families {
namespace {

struct DeltaSizes {
  std::int64_t hidden = 0, key_width = 0, value_width = 0, value_heads = 0, value_dim = 0,
               kernel = 0;
};

DeltaSizes read_delta(const ConfigReader& config, std::int64_t hidden) {
  DeltaSizes d;
  d.hidden = hidden;
  d.value_heads = config.count("linear_num_value_heads", 32);
  d.value_dim = config.count("linear_value_head_dim", 128);
  d.key_width = config.count("linear_num_key_heads", 16) * config.count("linear_key_head_dim", 128);
  d.value_width = d.value_heads * d.value_dim;
  d.kernel = config.count("linear_conv_kernel_dim", 4);
  return d;
}

void add_delta_inputs(const Tensors& t, const DeltaSizes& d, DeltaInputs inputs) {
  if (inputs == DeltaInputs::Grouped) {
    t.linear("in_proj_qkvz", d.hidden, 2 * d.key_width + 2 * d.value_width);
    t.linear("in_proj_ba", d.hidden, 2 * d.value_heads);
    return;
  }
  t.linear("in_proj_qkv", d.hidden, 2 * d.key_width + d.value_width);
  t.linear("in_proj_z", d.hidden, d.value_width);
  t.linear("in_proj_b", d.hidden, d.value_heads);
  t.linear("in_proj_a", d.hidden, d.value_heads);
}

void add_delta_attention(const Tensors& t, const DeltaSizes& d, DeltaInputs inputs) {
  t.vector("dt_bias", {d.value_heads});
  t.vector("A_log", {d.value_heads});
  t.matrix("conv1d.weight", {2 * d.key_width + d.value_width, 1, d.kernel});
  add_delta_inputs(t, d, inputs);
  t.norm("norm", d.value_dim);
  t.linear("out_proj", d.value_width, d.hidden);
}

/// Attention whose queries come with a gate of their width.
void add_doubled_attention(const Tensors& t, const Attention& a) {
  t.linear("q_proj", a.hidden, 2 * a.q_width(), a.bias);
  t.linear("k_proj", a.hidden, a.kv_width(), a.bias);
  t.linear("v_proj", a.hidden, a.kv_width(), a.bias);
  t.linear("o_proj", a.q_width(), a.hidden, a.out_bias);
  t.attends(a.q_width());
  add_head_norms(t, a);
}

/// Whether each block has linear attention.
std::vector<bool> linear_blocks(const ConfigReader& config, std::int64_t layers) {
  const std::vector<std::string> types = config.texts("layer_types");
  const std::int64_t interval = config.count("full_attention_interval", 4);
  if (!types.empty() && static_cast<std::int64_t>(types.size()) != layers) {
    config.reject("layer_types", "has another length than there are blocks", "Name each block.");
  }
  std::vector<bool> linear;
  for (std::int64_t i = 0; i < layers; ++i) {
    linear.push_back(types.empty() ? (i + 1) % interval != 0
                                   : types[static_cast<std::size_t>(i)] == "linear_attention");
  }
  return linear;
}

}  // namespace

Decoder delta_hybrid(const ConfigReader& config, const DecoderSizes& sizes, DeltaInputs inputs,
                     const AddBlock& mlp) {
  const DeltaSizes delta = read_delta(config, sizes.hidden());
  return decoder_of(sizes, [=, linear = linear_blocks(config, sizes.layers)](const Tensors& t,
                                                                             std::int64_t index) {
    if (linear[static_cast<std::size_t>(index)]) {
      add_delta_attention(t.in("linear_attn"), delta, inputs);
    } else {
      add_doubled_attention(t.in("self_attn"), sizes.attention);
    }
    mlp(t, index);
    add_both_norms(t, sizes.hidden());
  });
}

Decoder qwen3_5(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {248320, 4096, 12288, 32, 16, 4, 256, false});
  s.attention.bias = s.attention.out_bias = config.flag("attention_bias", false);
  return delta_hybrid(config, s, DeltaInputs::Separate, [=](const Tensors& t, std::int64_t) {
    add_gated_mlp(t.in("mlp"), s.hidden(), s.inner);
  });
}

}  // namespace athanor::families
