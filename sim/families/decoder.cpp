// SPDX-License-Identifier: Apache-2.0
#include "sim/families/decoder.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor {
namespace {

std::int64_t table_width(const Decoder& d) { return d.table_width == 0 ? d.width : d.table_width; }

void add_head(ModelBuilder& model, const Decoder& d, const DecoderPlace& place, int embedding) {
  const Tensors head = model.add("head", "head", "");
  head.norm(place.prefix + d.names.norm, d.width, d.norm);
  if (d.more_of_head) d.more_of_head(model.more(place.prefix));
  if (!place.has_head) return;
  const std::int64_t width = table_width(d);
  const std::string name = place.head_prefix + d.names.head;
  if (d.tied) {
    head.borrow(embedding, place.prefix + d.names.embedding + ".weight", d.vocab * width);
  } else {
    head.linear(name, width, d.vocab);
  }
  if (d.head_bias) head.vector(name + ".bias", {d.vocab});
}

}  // namespace

DecoderSizes read_sizes(const ConfigReader& config, const DecoderDefaults& defaults) {
  DecoderSizes sizes;
  Attention& a = sizes.attention;
  sizes.vocab = config.count("vocab_size", defaults.vocab);
  a.hidden = config.count("hidden_size", defaults.hidden);
  sizes.inner = config.count("intermediate_size", defaults.inner);
  sizes.layers = config.count("num_hidden_layers", defaults.layers, kMaxBlocks);
  a.heads = config.count("num_attention_heads", defaults.heads);
  a.kv_heads = config.count_or("num_key_value_heads",
                               defaults.kv_heads == 0 ? a.heads : defaults.kv_heads, a.heads);
  const bool even = defaults.head_dim == 0 && !config.has("head_dim");
  a.head_dim = even ? config.share("num_attention_heads", a.hidden, a.heads)
                    : config.count("head_dim", defaults.head_dim);
  sizes.tied = config.flag("tie_word_embeddings", defaults.tied);
  return sizes;
}

Decoder decoder_of(const DecoderSizes& sizes, AddBlock block) {
  return {.vocab = sizes.vocab,
          .width = sizes.hidden(),
          .layers = sizes.layers,
          .tied = sizes.tied,
          .block = std::move(block)};
}

void add_decoder(ModelBuilder& model, const Decoder& d, const DecoderPlace& place) {
  const Tensors tables = model.add("embedding", "embedding", place.prefix);
  const int embedding = model.last();
  tables.table(d.names.embedding, d.vocab, table_width(d));
  if (d.more_tables) d.more_tables(tables);
  for (std::int64_t i = 0; i < d.layers; ++i) {
    d.block(model.add(fmt::format("block.{}", i), "block",
                      fmt::format("{}{}.{}.", place.prefix, d.names.blocks, i)),
            i);
  }
  add_head(model, d, place, embedding);
}

}  // namespace athanor
