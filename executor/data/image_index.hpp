// SPDX-License-Identifier: Apache-2.0
// The index of a folder of images: labelled-images.md defines the format.
#pragma once

#include "executor/data/shard_files.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

struct ImageShard {
  ShardFile file;
  std::int64_t images = 0;
};

struct ImageIndex {
  std::string model;
  std::int64_t channels = 0, height = 0, width = 0;
  std::int64_t images = 0;
  double scale = 0;                     ///< factor of a pixel, before mean and deviation
  std::vector<double> mean, deviation;  ///< [channel]
  std::vector<std::string> labels;      ///< names, by label
  std::vector<ImageShard> shards;

  [[nodiscard]] std::int64_t pixels_per_image() const { return channels * height * width; }
};

/// Parses an index and checks that its numbers agree. Throws InputError(file:key).
[[nodiscard]] ImageIndex parse_image_index(std::string_view text, const std::string& file);

}  // namespace athanor
