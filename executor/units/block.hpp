// SPDX-License-Identifier: Apache-2.0
// Blocks of language models, made of two halves: attention, and what follows it. A block is one
// unit with both, or each half is a unit of its own (Blocks in language_models.hpp). The code of a
// half is the same either way, and so are its bits.
#pragma once

#include "executor/experts/balance_loss.hpp"
#include "executor/layers/fused_layers.hpp"
#include "executor/units/language_unit.hpp"

#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
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

/// Attention whose output and the next half's norm one operator can compute: that of gpt2 and opt.
class LinkedAttention : public BlockHalf {
 public:
  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& batch,
                                     torch::Tensor* sums) const override;
  /// Returns add_to(x) and the norm of it.
  [[nodiscard]] Branch add_to(const torch::Tensor& x, const Batch& batch,
                              const LayerNorm& norm) const;

 protected:
  LinkedAttention(LayerNorm norm, Linear output)
      : norm_(std::move(norm)), output_(std::move(output)) {}
  /// Returns the heads' outputs side by side, before the projection.
  [[nodiscard]] virtual torch::Tensor attend(const torch::Tensor& normal,
                                             const Batch& batch) const = 0;

 private:
  LayerNorm norm_;
  Linear output_;
};

/// A perceptron of two layers behind a norm: that of gpt2 and opt.
class LinkedMlp : public BlockHalf {
 public:
  [[nodiscard]] torch::Tensor add_to(const torch::Tensor& x, const Batch& batch,
                                     torch::Tensor* sums) const override;
  [[nodiscard]] torch::Tensor add_to(const Branch& stream) const;
  [[nodiscard]] const LayerNorm& norm() const noexcept { return norm_; }

 protected:
  LinkedMlp(std::string activation, LayerNorm norm, Linear expand, Linear contract)
      : activation_(std::move(activation)),
        norm_(std::move(norm)),
        expand_(std::move(expand)),
        contract_(std::move(contract)) {}

 private:
  std::string activation_;
  LayerNorm norm_;
  Linear expand_, contract_;
};

/// A whole block of both, with one operator from attention's output to the other half's norm.
template <typename Attention, typename Mlp>
class LinkedBlock final : public LanguageUnit {
 public:
  LinkedBlock(const Unit& unit, std::string prefix, const LanguageModelConfig& c, DataType dtype)
      : LanguageUnit(unit, std::move(prefix), dtype), attention_(*this, c), mlp_(*this, c) {}

  torch::Tensor forward(torch::Tensor activation, const Batch& batch) override {
    return mlp_.add_to(attention_.add_to(activation, batch, mlp_.norm()));
  }

 private:
  Attention attention_;
  Mlp mlp_;
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
