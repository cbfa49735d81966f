// SPDX-License-Identifier: Apache-2.0
#include "executor/data/image_dataset.hpp"

#include "executor/data/sample_order.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cassert>
#include <filesystem>

namespace athanor {

namespace {

namespace fs = std::filesystem;

constexpr const char* kPixels = "pixels";
constexpr const char* kLabels = "labels";
constexpr std::size_t kPixelValues = 256;

ImageIndex read_image_index(const std::string& folder) {
  const fs::path path = fs::path(folder) / "index.json";
  if (!is_there(path)) {
    throw InputError(folder, "holds no index.json, so it is no folder of prepared images",
                     "Make one: athanor tokenize --model FOLDER --data IMAGES -o NEW. A folder "
                     "without an index is incomplete.");
  }
  return parse_image_index(read_text_file(path.string(), kMaxDocument), path.string());
}

void check_size(const ImageIndex& index, const ImageClassifierConfig& model,
                const std::string& where) {
  if (index.channels != model.num_channels) {
    throw InputError(where + ":channels",
                     fmt::format("images of {} channels, and this model takes {}", index.channels,
                                 model.num_channels),
                     "Make them again for this model: athanor tokenize --model FOLDER.");
  }
  const std::int64_t side = model.image_size;
  if (index.height == side && index.width == side) return;
  throw InputError(where + ":height",
                   fmt::format("images of {} x {} pixels, and this model takes {} x {}; positions "
                               "are not interpolated",
                               index.height, index.width, side, side),
                   fmt::format("Make them again: athanor tokenize --image-size {}.", side));
}

void check_labels(const ImageIndex& index, const ImageClassifierConfig& model,
                  const std::string& where) {
  const auto labels = static_cast<std::int64_t>(index.labels.size());
  if (labels == model.num_labels) return;
  throw InputError(
      where + ":labels",
      fmt::format("names {} labels, and the model tells {} apart", labels, model.num_labels),
      fmt::format(
          "Give the model a classifier for them: python3 -c \"from transformers import "
          "AutoModelForImageClassification as M; M.from_pretrained('FOLDER', num_labels={}, "
          "ignore_mismatched_sizes=True).save_pretrained('NEW')\"",
          labels));
}

void check_image_tensor(const SafetensorsReader& shard, const char* name, TensorType type,
                        const std::vector<std::int64_t>& shape) {
  const TensorEntry* const tensor = shard.find(name);
  if (tensor != nullptr && tensor->type == type && tensor->shape == shape) return;
  throw InputError(
      fmt::format("{}:{}", shard.path(), name),
      fmt::format("is no {} [{}], as index.json says", name_of(type), fmt::join(shape, ", ")),
      kDamagedFolder);
}

SafetensorsReader open_images(const std::string& folder, const ImageIndex& index,
                              const ImageShard& entry) {
  SafetensorsReader shard = open_shard_file(folder, entry.file);
  check_image_tensor(shard, kPixels, TensorType::U8,
                     {entry.images, index.channels, index.height, index.width});
  check_image_tensor(shard, kLabels, TensorType::I64, {entry.images});
  return shard;
}

/// Computes what every pixel becomes, in fp32 and in the order of transformers' image processors.
std::vector<float> pixel_values(const ImageIndex& index) {
  std::vector<float> values;
  for (std::size_t channel = 0; channel < index.mean.size(); ++channel) {
    const auto mean = static_cast<float>(index.mean[channel]);
    const auto deviation = static_cast<float>(index.deviation[channel]);
    for (std::size_t pixel = 0; pixel < kPixelValues; ++pixel) {
      const auto scaled = static_cast<float>(static_cast<double>(pixel) * index.scale);
      values.push_back((scaled - mean) / deviation);
    }
  }
  return values;
}

}  // namespace

ImageDataset::ImageDataset(std::string folder, const ImageClassifierConfig& model)
    : folder_(std::move(folder)), index_(read_image_index(folder_)), values_(pixel_values(index_)) {
  const std::string where = (fs::path(folder_) / "index.json").string();
  check_size(index_, model, where);
  check_labels(index_, model, where);
  for (const ImageShard& entry : index_.shards) {
    shards_.push_back(open_images(folder_, index_, entry));
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + entry.images);
  }
}

std::pair<std::size_t, std::int64_t> ImageDataset::place_of(std::int64_t image) const {
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), image);
  const auto shard = static_cast<std::size_t>(end - ends_.begin());
  return {shard, image - (shard == 0 ? 0 : ends_[shard - 1])};
}

std::int64_t ImageDataset::label_at(std::size_t shard, std::int64_t number) const {
  const SafetensorsReader& file = shards_[shard];
  std::int64_t label = 0;
  file.read_bytes(*file.find(kLabels), static_cast<std::size_t>(number) * sizeof(label),
                  std::as_writable_bytes(std::span(&label, 1)));
  if (label >= 0 && label < static_cast<std::int64_t>(index_.labels.size())) return label;
  throw InputError(
      fmt::format("{}:labels: image {}", file.path(), number),
      fmt::format("label {} is none of the {} of index.json", label, index_.labels.size()),
      kDamagedFolder);
}

void ImageDataset::check_all() const {
  for (std::size_t shard = 0; shard < shards_.size(); ++shard) {
    const ImageShard& entry = index_.shards[shard];
    check_shard_sum(shards_[shard], entry.file.crc32);
    for (std::int64_t i = 0; i < entry.images; ++i) static_cast<void>(label_at(shard, i));
  }
}

std::int64_t ImageDataset::read_sample(std::int64_t index, std::span<float> pixels) const {
  const auto size = static_cast<std::size_t>(index_.pixels_per_image());
  assert(pixels.size() == size);
  const auto [shard, number] =
      place_of(repeated_place(index, index_.images, index_.shards.front().file.crc32));
  const SafetensorsReader& file = shards_[shard];
  std::vector<std::byte> stored(size);
  file.read_bytes(*file.find(kPixels), static_cast<std::size_t>(number) * size, stored);
  const std::size_t of_channel = size / static_cast<std::size_t>(index_.channels);
  for (std::size_t first = 0, table = 0; first < size; first += of_channel, table += kPixelValues) {
    const float* const values = &values_[table];
    for (std::size_t i = first; i < first + of_channel; ++i) {
      pixels[i] = values[std::to_integer<std::size_t>(stored[i])];
    }
  }
  return label_at(shard, number);
}

}  // namespace athanor
