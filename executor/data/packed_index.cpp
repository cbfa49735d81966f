// SPDX-License-Identifier: Apache-2.0
#include "executor/data/packed_index.hpp"

#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>

#include <charconv>

namespace athanor {

namespace {

constexpr std::int64_t kLongestSequence = std::int64_t{1} << 24;
const char* const kTokenizeAgain = "Make the folder again with `athanor tokenize`.";

std::uint32_t read_crc32(const JsonReader& json) {
  constexpr std::size_t kDigits = 8;
  constexpr int kHexadecimal = 16;
  const std::string text = json.string();
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, kHexadecimal);
  if (text.size() != kDigits || error != std::errc() || stop != end) {
    json.reject("is no CRC-32 of 8 hexadecimal digits", kTokenizeAgain);
  }
  return value;
}

/// Reads a name of a file in the folder itself.
std::string read_file_name(const JsonReader& json) {
  std::string name = json.string();
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    json.reject("is no name of a file in the folder", kTokenizeAgain);
  }
  return name;
}

PackedShard read_shard(JsonReader json) {
  PackedShard shard{.file = read_file_name(json.key("file")),
                    .sequences = json.key("sequences").integer(1),
                    .bytes = json.key("bytes").integer(1),
                    .crc32 = read_crc32(json.key("crc32"))};
  json.reject_other_keys();
  return shard;
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
