// SPDX-License-Identifier: Apache-2.0
// Blocks of language models, made of two halves: attention, and what follows it. A block is one
// unit with both, or each half is a unit of its own (Blocks in language_models.hpp). The code of a
// half is the same either way, and so are its bits.
#pragma once

#include "executor/layers/balance_loss.hpp"
#include "executor/units/language_unit.hpp"

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace athanor {

enum class Half {
  Attention,
  Behind,  ///< the perceptron or the experts
};

/// A branch of the residual stream with its norm and its weights.
class BlockHalf {
 public:
  BlockHalf() = default;
  virtual ~BlockHalf() = default;
  BlockHalf(const BlockHalf&) = delete;
  BlockHalf& operator=(const BlockHalf&) = delete;

  /// Returns x + branch(norm(x)). Experts add their routing to `sums` where it is not null.
  [[nodiscard]] virtual torch::Tensor add_to(const torch::Tensor& x, const Batch& batch,
                                             torch::Tensor* sums) const = 0;
};

/// Makes a half from the parameters of `unit`.
using MakeHalf = std::unique_ptr<BlockHalf> (*)(LanguageUnit& unit,
                                                const LanguageModelConfig& config,
                                                std::int64_t layer, Half half);

/// A unit that is a block, or one half of it.
class BlockUnit final : public LanguageUnit {
 public:
  /// `halves` are those that the unit has, in order.
  BlockUnit(const Unit& unit, std::string prefix, const LanguageModelConfig& config,
            std::int64_t layer, DataType dtype, MakeHalf make, const std::vector<Half>& halves);

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override;

 private:
  [[nodiscard]] torch::Tensor all_halves(torch::Tensor x, const Batch& batch,
                                         torch::Tensor* sums) const;

  std::int64_t hidden_;
  bool carries_sums_;  ///< whether activations carry sums of the experts' routing
  std::vector<std::unique_ptr<BlockHalf>> halves_;
};

}  // namespace athanor
