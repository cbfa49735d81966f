// SPDX-License-Identifier: Apache-2.0
// The base of the units of classifiers of images, and their blocks.
#pragma once

#include "executor/units/language_unit.hpp"
#include "sim/model/image_classifier.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace athanor {

/// Attention of every token to every other, with the names that vit and dinov2 share.
struct ImageAttention {
  Linear query, key, value;
  std::int64_t heads = 1;
  /// Returns what goes into the output projection.
  [[nodiscard]] torch::Tensor operator()(const torch::Tensor& x) const;
};

/// A unit whose parameters are asked for by their names in the checkpoint, as those of language
/// models are.
class ImageUnit : public LanguageUnit {
 public:
  ImageUnit(const Unit& unit, const std::string& prefix, ImageClassifierConfig config,
            DataType dtype)
      : LanguageUnit(unit, prefix, dtype), config_(std::move(config)) {}

 protected:
  [[nodiscard]] const ImageClassifierConfig& config() const noexcept { return config_; }
  /// Returns a norm over the hidden size.
  [[nodiscard]] LayerNorm norm(const std::string& name);
  /// Returns a layer with a bias from the hidden size to itself.
  [[nodiscard]] Linear square(const std::string& name, bool bias = true);
  /// Returns the attention of a block, without its output projection.
  [[nodiscard]] ImageAttention attention();

 private:
  ImageClassifierConfig config_;
};

/// Returns the name of all parameters but the classifier's: "vit." or "dinov2.".
[[nodiscard]] std::string base_prefix(const ImageClassifierConfig& config);

/// Makes the unit of block `layer`.
[[nodiscard]] std::shared_ptr<ImageUnit> make_image_block(const Unit& unit,
                                                          const ImageClassifierConfig& config,
                                                          std::int64_t layer, DataType dtype);

}  // namespace athanor
