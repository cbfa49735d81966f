// SPDX-License-Identifier: Apache-2.0
// The base of all language models' units: parameters by checkpoint name.
#pragma once

#include "executor/layers/plain_layers.hpp"
#include "executor/units/model.hpp"

#include <torch/types.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

namespace athanor {

/// A unit whose registered parameters are those of an architecture's unit, in that order. A family
/// asks for what it needs by name and shape, so a disagreement is found when the model is built.
class LanguageUnit : public UnitModule {
 public:
  /// `prefix` is put before every name that a family asks for.
  LanguageUnit(const Unit& unit, std::string prefix, DataType dtype);

  [[nodiscard]] std::vector<std::pair<int, torch::Tensor>> borrowed() const override {
    return borrowed_;
  }

  /// Returns the parameter `prefix + name`. Throws Error when the architecture lacks it or gives it
  /// another shape.
  [[nodiscard]] torch::Tensor parameter(const std::string& name,
                                        std::initializer_list<std::int64_t> shape);
  /// Throws Error when the architecture has a parameter that nothing asked for.
  void require_all_used() const;

  [[nodiscard]] Linear linear(const std::string& name, std::int64_t out, std::int64_t in,
                              bool bias);
  /// Returns a layer whose weight is stored [in, out].
  [[nodiscard]] Linear transposed_linear(const std::string& name, std::int64_t in,
                                         std::int64_t out);
  [[nodiscard]] LayerNorm layer_norm(const std::string& name, const LanguageModelConfig& config);
  [[nodiscard]] RmsNorm rms_norm(const std::string& name, std::int64_t width,
                                 const LanguageModelConfig& config);

 protected:
  /// Returns the projection to the vocabulary. A model with tied weights borrows the embedding's
  /// `tokens`; any other has its own "lm_head.weight".
  [[nodiscard]] torch::Tensor head_weight(const LanguageModelConfig& config,
                                          const torch::Tensor& tokens);

 private:
  struct Entry {
    std::string name;
    torch::Tensor tensor;
    bool used = false;
  };
  std::string unit_name_, prefix_;
  std::vector<Entry> entries_;
  std::vector<std::pair<int, torch::Tensor>> borrowed_;
};

}  // namespace athanor
