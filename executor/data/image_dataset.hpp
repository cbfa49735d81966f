// SPDX-License-Identifier: Apache-2.0
// Images and their labels: labelled-images.md defines the format.
#pragma once

#include "executor/data/image_index.hpp"
#include "sim/model/image_classifier.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

/// A folder of images of one size, each with a label. Samples are its images over and over: first
/// in the order of the folder, which `athanor tokenize` has shuffled, then in another order with
/// every pass. Reading is thread-safe.
class ImageDataset {
 public:
  /// Opens `folder`. Throws InputError when index and shards do not agree, or when the images or
  /// labels are not those of `model`.
  ImageDataset(std::string folder, const ImageClassifierConfig& model);

  [[nodiscard]] const std::string& path() const noexcept { return folder_; }
  [[nodiscard]] const ImageIndex& index() const noexcept { return index_; }
  [[nodiscard]] std::int64_t num_samples() const noexcept { return index_.images; }

  /// Reads all shards once: checksums and labels. Throws InputError that names shard and image.
  void check_all() const;
  /// Writes the pixels of sample `index`, scaled and normalised, as [channel][row][column]. Returns
  /// its label. Throws InputError for a label that the index does not name.
  std::int64_t read_sample(std::int64_t index, std::span<float> pixels) const;

 private:
  [[nodiscard]] std::pair<std::size_t, std::int64_t> place_of(std::int64_t image) const;
  [[nodiscard]] std::int64_t label_at(std::size_t shard, std::int64_t number) const;

  std::string folder_;
  ImageIndex index_;
  std::vector<SafetensorsReader> shards_;
  std::vector<std::int64_t> ends_;  ///< [shard]: images up to its end
  std::vector<float> values_;       ///< [channel][pixel]: what a pixel becomes
};

}  // namespace athanor
