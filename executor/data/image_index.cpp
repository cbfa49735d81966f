// SPDX-License-Identifier: Apache-2.0
#include "executor/data/image_index.hpp"

#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {

namespace {

ImageShard read_image_shard(JsonReader json) {
  ImageShard shard{.file = read_shard_file(json), .images = json.key("images").integer(1)};
  json.reject_other_keys();
  return shard;
}

std::vector<double> read_channels(const JsonReader& json, std::int64_t channels) {
  std::vector<double> values;
  for (const JsonReader& item : json.items()) values.push_back(item.number());
  if (static_cast<std::int64_t>(values.size()) != channels) {
    json.reject(fmt::format("{} numbers for {} channels", values.size(), channels), kTokenizeAgain);
  }
  return values;
}

std::vector<std::string> read_labels(const JsonReader& json) {
  std::vector<std::string> labels;
  for (const JsonReader& item : json.items()) labels.push_back(item.string());
  if (labels.empty()) json.reject("names no label", kTokenizeAgain);
  return labels;
}

/// Names the mistake of giving a model of images the tokens of a language model.
void reject_tokens(JsonReader& root) {
  const auto schema = root.optional_key("schema");
  if (!schema || !schema->is_string() || !schema->string().starts_with("athanor.tokens/")) return;
  schema->reject("the folder holds tokens, and this model classifies images",
                 "Make images for it: athanor tokenize --model FOLDER --data IMAGES.");
}

void check_images(const ImageIndex& index, const JsonReader& root) {
  std::int64_t images = 0;
  for (const ImageShard& shard : index.shards) {
    images += std::min(shard.images, index.images + 1 - images);
  }
  if (images == index.images) return;
  root.reject(fmt::format("{} images, and the shards hold other numbers", index.images),
              kTokenizeAgain);
}

}  // namespace

ImageIndex parse_image_index(std::string_view text, const std::string& file) {
  constexpr std::int64_t kMostChannels = 1 << 10;
  constexpr std::int64_t kLongestSide = 1 << 16;
  const nlohmann::json document = parse_json(text, file);
  JsonReader root(document, ValuePath(file));
  reject_tokens(root);
  static_cast<void>(check_schema(root, "images", "tokenize"));
  ImageIndex index;
  index.model = root.key("model").string();
  index.channels = root.key("channels").integer(1, kMostChannels);
  index.height = root.key("height").integer(1, kLongestSide);
  index.width = root.key("width").integer(1, kLongestSide);
  index.images = root.key("images").integer(1);
  index.scale = root.key("scale").number();
  check_positive(root.path().key("scale"), index.scale);
  index.mean = read_channels(root.key("mean"), index.channels);
  index.deviation = read_channels(root.key("std"), index.channels);
  for (std::size_t i = 0; i < index.deviation.size(); ++i) {
    check_positive(root.path().key("std").item(i), index.deviation[i]);
  }
  index.labels = read_labels(root.key("labels"));
  for (const JsonReader& shard : root.key("shards").items()) {
    index.shards.push_back(read_image_shard(shard));
  }
  root.reject_other_keys();
  check_images(index, root);
  return index;
}

}  // namespace athanor
