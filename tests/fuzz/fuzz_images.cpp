// SPDX-License-Identifier: Apache-2.0
// Fuzzes the index of labelled images. Whatever the text, it either throws an InputError or returns
// an index whose shards are files of the folder and add up.
#include "executor/data/image_index.hpp"
#include "sim/base/errors.hpp"

#include <cstdint>
#include <cstdlib>
#include <string_view>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  try {
    const athanor::ImageIndex index = athanor::parse_image_index(
        std::string_view(reinterpret_cast<const char*>(data), size), "index.json");
    std::int64_t images = 0;
    for (const athanor::ImageShard& shard : index.shards) {
      if (shard.file.file.find('/') != std::string::npos || shard.images < 1) std::abort();
      images += shard.images;
    }
    const bool agrees = images == index.images && index.pixels_per_image() > 0 &&
                        index.mean.size() == static_cast<std::size_t>(index.channels) &&
                        index.deviation.size() == index.mean.size() && !index.labels.empty();
    if (!agrees) std::abort();
  } catch (const athanor::InputError&) {
    return 0;
  }
  return 0;
}
