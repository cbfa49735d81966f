// SPDX-License-Identifier: Apache-2.0
// Blocks of ViT (Dosovitskiy et al. 2021) and of DINOv2 (Oquab et al. 2024), which scales what it
// adds to each channel.
#include "executor/layers/fused_layers.hpp"
#include "executor/vision/image_unit.hpp"

#include <fmt/format.h>

namespace athanor {

namespace {

std::string block_prefix(const ImageClassifierConfig& c, std::int64_t layer) {
  return fmt::format("{}encoder.layer.{}.", base_prefix(c), layer);
}

class VitBlock final : public ImageUnit {
 public:
  VitBlock(const Unit& unit, const ImageClassifierConfig& c, std::int64_t layer, DataType dtype)
      : ImageUnit(unit, block_prefix(c, layer), c, dtype),
        attention_norm_(norm("layernorm_before")),
        mlp_norm_(norm("layernorm_after")),
        attention_(attention()),
        attention_output_(square("attention.output.dense")),
        expand_(linear("intermediate.dense", c.intermediate_size, c.hidden_size, true)),
        contract_(linear("output.dense", c.hidden_size, c.intermediate_size, true)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& /*batch*/) override {
    Branch stream = branch(activation, attention_norm_);
    stream = add_and_branch(stream.trunk, attention_output_, attention_(stream.normal), mlp_norm_);
    return stream.trunk + contract_(activated(expand_, stream.normal, config().activation));
  }

 private:
  LayerNorm attention_norm_, mlp_norm_;
  ImageAttention attention_;
  Linear attention_output_, expand_, contract_;
};

class Dinov2Block final : public ImageUnit {
 public:
  Dinov2Block(const Unit& unit, const ImageClassifierConfig& c, std::int64_t layer, DataType dtype)
      : ImageUnit(unit, block_prefix(c, layer), c, dtype),
        attention_norm_(norm("norm1")),
        mlp_norm_(norm("norm2")),
        attention_(attention()),
        attention_output_(square("attention.output.dense")),
        attention_scale_(parameter("layer_scale1.lambda1", {c.hidden_size})),
        mlp_scale_(parameter("layer_scale2.lambda1", {c.hidden_size})),
        expand_(linear(c.gated ? "mlp.weights_in" : "mlp.fc1",
                       (c.gated ? 2 : 1) * c.intermediate_size, c.hidden_size, true)),
        contract_(linear(c.gated ? "mlp.weights_out" : "mlp.fc2", c.hidden_size,
                         c.intermediate_size, true)) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& /*batch*/) override {
    Branch stream = branch(activation, attention_norm_);
    const torch::Tensor attended =
        stream.trunk + attention_output_(attention_(stream.normal)) * attention_scale_;
    stream = branch(attended, mlp_norm_);
    return stream.trunk + contract_(inner(stream.normal)) * mlp_scale_;
  }

 private:
  [[nodiscard]] torch::Tensor inner(const torch::Tensor& x) const {
    if (!config().gated) return activated(expand_, x, config().activation);
    const std::vector<torch::Tensor> halves = expand_(x).chunk(2, -1);
    return at::silu(halves[0]) * halves[1];
  }

  LayerNorm attention_norm_, mlp_norm_;
  ImageAttention attention_;
  Linear attention_output_;
  torch::Tensor attention_scale_, mlp_scale_;
  Linear expand_, contract_;
};

}  // namespace

std::shared_ptr<ImageUnit> make_image_block(const Unit& unit, const ImageClassifierConfig& config,
                                            std::int64_t layer, DataType dtype) {
  if (config.model_type == "vit") return std::make_shared<VitBlock>(unit, config, layer, dtype);
  return std::make_shared<Dinov2Block>(unit, config, layer, dtype);
}

}  // namespace athanor
