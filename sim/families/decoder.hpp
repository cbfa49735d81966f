// SPDX-License-Identifier: Apache-2.0
// Decoder: a stack of blocks between an embedding and a head, the frame of all language models.
#pragma once

#include "sim/families/config_reader.hpp"
#include "sim/families/pieces.hpp"
#include "sim/families/tensors.hpp"

#include <functional>
#include <string>

namespace athanor {

/// Defaults of transformers, where a config.json leaves a key out. 0 kv_heads: as many as heads; 0
/// head_dim: the hidden size, divided by the heads.
struct DecoderDefaults {
  std::int64_t vocab = 0, hidden = 0, inner = 0, layers = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool tied = false;
};

/// Sizes that nearly all decoders have, under the keys that nearly all use.
struct DecoderSizes {
  std::int64_t vocab = 0, inner = 0, layers = 0;
  Attention attention;
  bool tied = false;
  [[nodiscard]] std::int64_t hidden() const { return attention.hidden; }
};

[[nodiscard]] DecoderSizes read_sizes(const ConfigReader& config, const DecoderDefaults& defaults);

/// Names of modules in the checkpoint.
struct DecoderNames {
  std::string embedding = "embed_tokens", blocks = "layers", norm = "norm", head = "lm_head";
};

using AddBlock = std::function<void(const Tensors&, std::int64_t index)>;

struct Decoder {
  std::int64_t vocab = 0, width = 0, layers = 0;
  bool tied = false;
  Norm norm = Norm::Rms;
  bool head_bias = false;
  AddBlock block;
  DecoderNames names{};
  std::function<void(const Tensors&)> more_tables =
      nullptr;  ///< tables of positions, beside the tokens'
  std::function<void(const Tensors&)> more_of_head =
      nullptr;  ///< between the last norm and the head
  std::int64_t table_width =
      0;  ///< width of the tokens' table and the head, where it is not `width`
};

/// Decoder of the sizes that were read.
[[nodiscard]] Decoder decoder_of(const DecoderSizes& sizes, AddBlock block);

/// Prefixes of a decoder's parameter names. A bare model has no head, and no prefix.
struct DecoderPlace {
  std::string prefix;       ///< prefix of all but the head: "model."
  std::string head_prefix;  ///< prefix of the head: ""
  bool has_head = true;
};

/// Adds an embedding, the blocks and a head.
void add_decoder(ModelBuilder& model, const Decoder& decoder, const DecoderPlace& place);

}  // namespace athanor
