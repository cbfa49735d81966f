// SPDX-License-Identifier: Apache-2.0
#include "executor/vision/image_classifier.hpp"

#include "executor/layers/head_loss.hpp"
#include "executor/vision/image_unit.hpp"
#include "executor/vision/random_images.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <utility>

namespace athanor {

namespace {

/// Patches, the token that stands for the image, and positions.
class Embedding final : public ImageUnit {
 public:
  Embedding(const Unit& unit, const ImageClassifierConfig& c, DataType dtype)
      : ImageUnit(unit, base_prefix(c) + "embeddings.", c, dtype),
        image_token_(parameter("cls_token", {1, 1, c.hidden_size})),
        positions_(parameter("position_embeddings", {1, c.num_tokens(), c.hidden_size})),
        weight_(parameter("patch_embeddings.projection.weight",
                          {c.hidden_size, c.num_channels, c.patch_size, c.patch_size})),
        bias_(parameter("patch_embeddings.projection.bias", {c.hidden_size})) {
    // Pretraining hides patches behind it. Here it gets no gradient and stays as it is.
    if (c.mask_token) static_cast<void>(parameter("mask_token", {1, c.hidden_size}));
  }

  torch::Tensor forward(torch::Tensor /*activation*/, const Batch& batch) override {
    const torch::Tensor embedded =
        at::linear(patches(batch.inputs.to(weight_.scalar_type())), weight_.flatten(1), bias_);
    const torch::Tensor first = image_token_.expand({embedded.size(0), 1, embedded.size(2)});
    return torch::cat({first, embedded}, 1) + positions_;
  }

 private:
  /// Lays out patches row by row: [batch, channels, side, side] -> [batch, patches, pixels]. A
  /// convolution whose stride is its width is a product with these.
  [[nodiscard]] torch::Tensor patches(const torch::Tensor& images) const {
    const std::int64_t count = config().patches_per_side();
    const std::int64_t side = config().patch_size;
    const std::int64_t channels = config().num_channels;
    const torch::Tensor used = images.slice(2, 0, count * side).slice(3, 0, count * side);
    return used.reshape({images.size(0), channels, count, side, count, side})
        .permute({0, 2, 4, 1, 3, 5})
        .reshape({images.size(0), count * count, channels * side * side});
  }

  torch::Tensor image_token_, positions_, weight_, bias_;
};

/// Norm, classifier and cross-entropy. vit reads the image's token, dinov2 also the mean of the
/// patches'.
class Head final : public ImageUnit {
 public:
  Head(const Unit& unit, const ImageClassifierConfig& c, DataType dtype)
      : ImageUnit(unit, "", c, dtype),
        norm_(norm(base_prefix(c) + "layernorm")),
        reads_patches_(c.model_type == "dinov2"),
        classifier_(
            linear("classifier", c.num_labels, (reads_patches_ ? 2 : 1) * c.hidden_size, true)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    return loss_of_logits(classifier_(pooled(activation)), batch.targets, batch.packing);
  }

 private:
  [[nodiscard]] torch::Tensor pooled(const torch::Tensor& tokens) const {
    if (!reads_patches_) return norm_(tokens.select(1, 0));
    const torch::Tensor normal = norm_(tokens);
    return torch::cat({normal.select(1, 0), normal.slice(1, 1).mean(1)}, 1);
  }

  LayerNorm norm_;
  bool reads_patches_;
  Linear classifier_;
};

void check_sequence(const Architecture& architecture, std::int64_t sequence_length) {
  const ImageClassifierConfig& c = *architecture.image_classifier;
  if (sequence_length == c.num_tokens()) return;
  throw InputError(architecture.name + ":sequence_length",
                   fmt::format("{} tokens, and an image of {} x {} pixels has {}", sequence_length,
                               c.image_size, c.image_size, c.num_tokens()),
                   "Leave --seq out: it follows from config.json.");
}

}  // namespace

Model make_image_classifier(const Architecture& architecture, DataType dtype,
                            std::int64_t sequence_length) {
  const ImageClassifierConfig& config = architecture.image_classifier.value();
  architecture.validate(architecture.name);
  check_sequence(architecture, sequence_length);
  Model model;
  model.architecture = architecture;
  model.dtype = dtype;
  std::vector<std::shared_ptr<ImageUnit>> units{
      std::make_shared<Embedding>(architecture.units.front(), config, dtype)};
  for (std::int64_t i = 0; i < config.num_layers; ++i) {
    units.push_back(make_image_block(architecture.units.at(i + 1), config, i, dtype));
  }
  units.push_back(std::make_shared<Head>(architecture.units.back(), config, dtype));
  for (const auto& unit : units) {
    unit->require_all_used();
    model.units.push_back(unit);
  }
  model.random_batch = random_images(config);
  return model;
}

}  // namespace athanor
