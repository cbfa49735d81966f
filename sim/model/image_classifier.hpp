// SPDX-License-Identifier: Apache-2.0
// ImageClassifierConfig: a vision transformer that tells classes of images apart.
#pragma once

#include <cstdint>
#include <string>

namespace athanor {

/// Hyperparameters of a classifier of square images (Dosovitskiy et al. 2021), under the names of
/// the design. Read from a Hugging Face config.json (see sim/families/image_classifiers.hpp).
struct ImageClassifierConfig {
  std::string model_type;  ///< vit or dinov2
  std::int64_t hidden_size = 0;
  std::int64_t num_layers = 0;
  std::int64_t num_heads = 0;
  std::int64_t intermediate_size = 0;  ///< width of the perceptron; of each half if it is gated
  std::int64_t image_size = 0;         ///< pixels of a side
  std::int64_t patch_size = 0;         ///< pixels of a side
  std::int64_t num_channels = 0;
  std::int64_t num_labels = 0;
  double norm_epsilon = 1e-6;
  std::string activation;  ///< gelu_new, gelu, relu or silu
  bool qkv_bias = true;
  bool gated = false;       ///< dinov2: the perceptron has a gate, which goes through silu
  bool mask_token = false;  ///< dinov2: a token that classification leaves alone
  double layer_scale = 1;   ///< dinov2: fresh scale of what a block adds

  [[nodiscard]] std::int64_t patches_per_side() const { return image_size / patch_size; }
  /// Tokens of an image: its patches, and the one that stands for all of it.
  [[nodiscard]] std::int64_t num_tokens() const {
    return patches_per_side() * patches_per_side() + 1;
  }
};

}  // namespace athanor
