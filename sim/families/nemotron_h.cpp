// SPDX-License-Identifier: Apache-2.0
// Nemotron-H: each block is one of a Mamba-2 mixer, attention, a perceptron and a mixture of
// experts, in an order of the configuration's.
#include "sim/families/mixtures.hpp"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace athanor::families {
namespace {

enum class Mixer { Mamba, Attention, Perceptron, Experts };

struct Mamba2Sizes {
  std::int64_t hidden = 0, heads = 0, head_dim = 0, groups = 0, state = 0, kernel = 0;
  bool conv_bias = false, bias = false;
  [[nodiscard]] std::int64_t inner() const { return heads * head_dim; }
  [[nodiscard]] std::int64_t convolved() const { return inner() + 2 * groups * state; }
};

struct ExpertSizes {
  Experts routed;
  std::int64_t shared = 0, latent = 0;  ///< latent: width that experts see; 0: the hidden state's
};

Mamba2Sizes read_mamba2(const ConfigReader& config, std::int64_t hidden) {
  return {hidden,
          config.count("mamba_num_heads", 128),
          config.count("mamba_head_dim", 64),
          config.count_of({"n_groups", "mamba_n_groups"}, 8),
          config.count("ssm_state_size", 128),
          config.count_of({"conv_kernel", "mamba_d_conv"}, 4),
          config.flag(config.has("mamba_conv_bias") ? "mamba_conv_bias" : "use_conv_bias", true),
          config.flag("use_bias", false)};
}

ExpertSizes read_experts_of(const ConfigReader& config) {
  ExpertSizes sizes;
  sizes.routed = read_experts(config, "n_routed_experts", "moe_intermediate_size", {8, 2, 7688});
  sizes.shared = config.count("moe_shared_expert_intermediate_size", 7688);
  sizes.latent = config.optional_count("moe_latent_size").value_or(0);
  return sizes;
}

Mixer mixer_of(const ConfigReader& config, const char* key, const std::string& name) {
  if (name == "M" || name == "linear_attention" || name == "mamba") return Mixer::Mamba;
  if (name == "*" || name == "full_attention" || name == "attention") return Mixer::Attention;
  if (name == "-" || name == "mlp") return Mixer::Perceptron;
  if (name == "E" || name == "moe") return Mixer::Experts;
  config.reject(key, fmt::format("the sizes of a block '{}' are not known", name),
                "Known: M (linear_attention), * (full_attention), - (mlp), E (moe).");
}

/// Reads the kind of each block. transformers takes the list where a file has both.
std::vector<Mixer> read_mixers(const ConfigReader& config) {
  std::vector<Mixer> mixers;
  for (const char* key : {"layers_block_type", "layer_types"}) {
    for (const std::string& name : config.texts(key)) mixers.push_back(mixer_of(config, key, name));
    if (!mixers.empty()) return mixers;
  }
  constexpr const char* kPattern = "hybrid_override_pattern";
  const std::string pattern = config.text(kPattern, "ME*-");
  if (pattern.size() > static_cast<std::size_t>(kMaxBlocks)) {
    config.reject(kPattern, fmt::format("{} blocks", pattern.size()),
                  fmt::format("At most {} can be used.", kMaxBlocks));
  }
  for (const char letter : pattern) {
    mixers.push_back(mixer_of(config, kPattern, std::string(1, letter)));
  }
  return mixers;
}

void add_mamba2(const Tensors& t, const Mamba2Sizes& m) {
  t.vector("dt_bias", {m.heads});
  t.vector("A_log", {m.heads});
  t.vector("D", {m.heads});
  t.matrix("conv1d.weight", {m.convolved(), 1, m.kernel});
  if (m.conv_bias) t.vector("conv1d.bias", {m.convolved()});
  t.linear("in_proj", m.hidden, m.inner() + m.convolved() + m.heads, m.bias);
  t.norm("norm", m.inner());
  t.linear("out_proj", m.inner(), m.hidden, m.bias);
}

void add_mixture(const Tensors& t, std::int64_t hidden, const ExpertSizes& e, bool bias) {
  const std::int64_t width = e.latent > 0 ? e.latent : hidden;
  t.linear("gate", hidden, e.routed.number);
  const Tensors used = t.in("experts").used(e.routed.share());
  used.matrix("up_proj", {e.routed.number, e.routed.inner, width});
  used.matrix("down_proj", {e.routed.number, width, e.routed.inner});
  add_mlp(t.in("shared_experts"), "up_proj", "down_proj", hidden, e.shared, bias);
  if (e.latent == 0) return;
  t.linear("fc1_latent_proj", hidden, e.latent, bias);
  t.linear("fc2_latent_proj", e.latent, hidden, bias);
}

}  // namespace

Decoder nemotron_h(const ConfigReader& config) {
  DecoderSizes s = read_sizes(config, {131072, 4096, 21504, 4, 32, 8, 128, false});
  const std::vector<Mixer> mixers = read_mixers(config);
  s.layers = static_cast<std::int64_t>(mixers.size());
  s.tied = false;  // transformers ties nothing here, whatever the file says
  const Mamba2Sizes mamba = read_mamba2(config, s.hidden());
  const ExpertSizes experts = read_experts_of(config);
  const bool bias = config.flag("mlp_bias", false);
  Decoder decoder = decoder_of(s, [=](const Tensors& block, std::int64_t index) {
    block.norm("norm", s.hidden());
    const Tensors t = block.in("mixer");
    switch (mixers[static_cast<std::size_t>(index)]) {
      case Mixer::Mamba:
        return add_mamba2(t, mamba);
      case Mixer::Attention:
        return add_attention(t, s.attention);
      case Mixer::Perceptron:
        return add_mlp(t, "up_proj", "down_proj", s.hidden(), s.inner, bias);
      case Mixer::Experts:
        return add_mixture(t, s.hidden(), experts, bias);
    }
  });
  decoder.names = {"embeddings", "layers", "norm_f", "lm_head"};
  return decoder;
}

}  // namespace athanor::families
