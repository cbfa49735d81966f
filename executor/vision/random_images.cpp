// SPDX-License-Identifier: Apache-2.0
#include "executor/vision/random_images.hpp"

#include <torch/utils.h>

namespace athanor {

namespace {

/// Seed of random batches. Any value will do: a profile depends on the images' shape alone.
constexpr std::uint64_t kBatchSeed = 20210603;

}  // namespace

std::function<Batch(std::int64_t num_samples)> random_images(const ImageClassifierConfig& config) {
  return [config](std::int64_t num_samples) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(kBatchSeed);
    return Batch{
        torch::randn({num_samples, config.num_channels, config.image_size, config.image_size},
                     generator, torch::kFloat32),
        torch::randint(0, config.num_labels, {num_samples}, generator, torch::kInt64)};
  };
}

}  // namespace athanor
