// SPDX-License-Identifier: Apache-2.0
#include "executor/data/packed_index.hpp"

#include "executor/data/shard_files.hpp"
#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

constexpr std::int64_t kLongestSequence = std::int64_t{1} << 24;

PackedShard read_shard(JsonReader json) {
  const std::int64_t sequences = json.key("sequences").integer(1);
  const ShardFile shard = read_shard_file(json);
  json.reject_other_keys();
  return {.file = shard.file, .sequences = sequences, .bytes = shard.bytes, .crc32 = shard.crc32};
}

/// Names the mistake of giving a language model the images of a classifier.
void reject_images(JsonReader& root) {
  const auto schema = root.optional_key("schema");
  if (!schema || !schema->is_string() || !schema->string().starts_with("athanor.images/")) return;
  schema->reject("the folder holds images, and this model predicts tokens",
                 "Make tokens for it: athanor tokenize --model FOLDER --data FILE.");
}

/// Throws unless the totals are possible: sequences are the shards', and nothing exceeds the room.
void check_totals(const PackedIndex& index, const JsonReader& root) {
  std::int64_t sequences = 0;
  for (const PackedShard& shard : index.shards) {
    if (shard.sequences > index.sequences - sequences) {
      root.reject("the shards hold more sequences than all together", kTokenizeAgain);
    }
    sequences += shard.sequences;
  }
  if (sequences != index.sequences) {
    root.reject(fmt::format("{} sequences, and the shards hold {}", index.sequences, sequences),
                kTokenizeAgain);
  }
  if ((index.tokens - 1) / index.sequence_length >= index.sequences ||
      index.documents > index.tokens || index.loss_tokens > index.tokens) {
    root.reject(
        fmt::format("{} tokens, {} of them learnt, and {} documents do not fit {} sequences "
                    "of {}",
                    index.tokens, index.loss_tokens, index.documents, index.sequences,
                    index.sequence_length),
        kTokenizeAgain);
  }
}

}  // namespace

PackedIndex parse_packed_index(std::string_view text, const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  JsonReader root(document, ValuePath(file));
  reject_images(root);
  static_cast<void>(check_schema(root, "tokens", "tokenize"));
  PackedIndex index{.model = root.key("model").string(),
                    .vocab_size = root.key("vocab_size").integer(1),
                    .sequence_length = root.key("sequence_length").integer(2, kLongestSequence),
                    .sequences = root.key("sequences").integer(1),
                    .documents = root.key("documents").integer(1),
                    .tokens = root.key("tokens").integer(1),
                    .loss_tokens = root.key("loss_tokens").integer(1),
                    .shards = {}};
  for (const JsonReader& shard : root.key("shards").items()) {
    index.shards.push_back(read_shard(shard));
  }
  root.reject_other_keys();
  check_totals(index, root);
  return index;
}

}  // namespace athanor
