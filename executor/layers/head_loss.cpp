// SPDX-License-Identifier: Apache-2.0
#include "executor/layers/head_loss.hpp"

#include "executor/layers/fused_operators.hpp"

#include <torch/autograd.h>
#include <torch/utils.h>

#include <algorithm>

namespace athanor {

namespace {

/// Number of logits that exist at once: large enough for matrix products at full speed.
constexpr std::int64_t kMostLogits = std::int64_t{1} << 27;
/// Rows of a block are a multiple of this, as the products' tiles are.
constexpr std::int64_t kRowMultiple = 128;
constexpr std::int64_t kVocabularyMultiple = 64;

/// Rows of each block but the last. Blocks are as equal as tiles allow, and none exceeds
/// kMostLogits.
std::int64_t rows_per_block(std::int64_t rows, std::int64_t vocabulary) {
  const std::int64_t most = std::max(kRowMultiple, kMostLogits / vocabulary);
  const std::int64_t blocks = (rows + most - 1) / most;
  const std::int64_t even = (rows + blocks - 1) / blocks;
  return (even + kRowMultiple - 1) / kRowMultiple * kRowMultiple;
}

/// Loss and gradients of [rows, width] hidden states, added up block by block.
class BlockwiseLoss {
 public:
  BlockwiseLoss(const torch::Tensor& hidden, const torch::Tensor& weight,
                const torch::Tensor& targets, const torch::Tensor& ignored, bool with_gradients)
      : rows_(hidden.reshape({-1, hidden.size(-1)})),
        weight_(padded(weight)),
        vocabulary_(weight.size(0)),
        targets_(targets.reshape({-1, 1})),
        ignored_(ignored.defined() ? ignored.reshape({-1, 1}) : ignored),
        loss_(torch::zeros({}, rows_.options().dtype(torch::kFloat32))) {
    if (with_gradients) {
      grad_rows_ = torch::empty_like(rows_);
      grad_weight_ = torch::empty_like(weight_);
    }
    const std::int64_t rows = rows_.size(0);
    const std::int64_t block = rows_per_block(rows, vocabulary_);
    for (std::int64_t first = 0; first < rows; first += block) {
      add_block(first, std::min(rows, first + block));
    }
  }

  [[nodiscard]] const torch::Tensor& sum() const { return loss_; }
  [[nodiscard]] torch::Tensor grad_rows() const { return grad_rows_; }
  [[nodiscard]] torch::Tensor grad_weight() const { return grad_weight_.slice(0, 0, vocabulary_); }

 private:
  void add_block(std::int64_t first, std::int64_t end) {
    const torch::Tensor rows = rows_.slice(0, first, end);
    const torch::Tensor targets = targets_.slice(0, first, end);
    const torch::Tensor ignored = ignored_.defined() ? ignored_.slice(0, first, end) : ignored_;
    // Rows of zeros in the weight make columns of zeros here, which add nothing to gradients.
    torch::Tensor products = at::mm(rows, weight_.t());
    if (fused::available(products)) {
      loss_.add_(learnt(fused::cross_entropy_in_place(products, targets, vocabulary_,
                                                      grad_rows_.defined()),
                        ignored)
                     .sum());
    } else {
      add_losses(products.slice(1, 0, vocabulary_), targets, ignored);
    }
    if (!grad_rows_.defined()) return;
    if (ignored.defined()) products.masked_fill_(ignored, 0.0);
    torch::Tensor grad_rows = grad_rows_.slice(0, first, end);
    at::mm_out(grad_rows, products, weight_);
    if (first == 0) {
      at::mm_out(grad_weight_, products.t(), rows);
    } else {
      grad_weight_.addmm_(products.t(), rows);
    }
  }

  /// Adds the rows' losses. If gradients are wanted, turns `logits` into their gradient: softmax
  /// less one at the target, in fp32. backward() divides.
  void add_losses(torch::Tensor logits, const torch::Tensor& targets,
                  const torch::Tensor& ignored) {
    torch::Tensor log_probabilities = at::log_softmax(logits, /*dim=*/1, torch::kFloat32);
    loss_.sub_(learnt(log_probabilities.gather(1, targets), ignored).sum());
    if (!grad_rows_.defined()) return;
    torch::Tensor gradient = log_probabilities.exp_();
    gradient.scatter_(1, targets, gradient.gather(1, targets).sub_(1.0));
    logits.copy_(gradient);
  }

  /// Clears the values of rows that are ignored.
  static torch::Tensor learnt(torch::Tensor values, const torch::Tensor& ignored) {
    return ignored.defined() ? values.masked_fill_(ignored.view_as(values), 0.0) : values;
  }

  /// Returns the weight with rows of zeros up to a multiple of kVocabularyMultiple. GPUs multiply
  /// matrices with an odd dimension (a vocabulary of 50257) at an eighth of their speed.
  static torch::Tensor padded(const torch::Tensor& weight) {
    const std::int64_t rows = weight.size(0);
    const std::int64_t missing =
        (kVocabularyMultiple - rows % kVocabularyMultiple) % kVocabularyMultiple;
    if (missing == 0) return weight;
    return torch::cat({weight, torch::zeros({missing, weight.size(1)}, weight.options())});
  }

  torch::Tensor rows_, weight_;
  std::int64_t vocabulary_;
  torch::Tensor targets_, ignored_, loss_, grad_rows_, grad_weight_;
};

class NextTokenLoss : public torch::autograd::Function<NextTokenLoss> {
 public:
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& hidden, const torch::Tensor& weight,
                               const torch::Tensor& targets,
                               const std::optional<torch::Tensor>& ignored, double divisor,
                               bool with_gradients) {
    const BlockwiseLoss result(hidden, weight, targets, ignored.value_or(torch::Tensor()),
                               with_gradients);
    context->saved_data["divisor"] = divisor;
    if (with_gradients) {
      context->save_for_backward({result.grad_rows().view(hidden.sizes()), result.grad_weight()});
    }
    return result.sum() / divisor;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list grad_outputs) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const torch::Tensor scale = grad_outputs.front() / context->saved_data["divisor"].toDouble();
    return {saved[0].mul_(scale), saved[1].mul_(scale), torch::Tensor(),
            torch::Tensor(),      torch::Tensor(),      torch::Tensor()};
  }
};

}  // namespace

torch::Tensor next_token_loss(const torch::Tensor& hidden, const torch::Tensor& weight,
                              const torch::Tensor& targets, const std::optional<Packing>& packing) {
  const double divisor = packing ? packing->mean_targets : static_cast<double>(targets.numel());
  const auto ignored = packing ? std::optional(packing->ignored) : std::nullopt;
  return NextTokenLoss::apply(hidden, weight, targets, ignored, divisor,
                              torch::GradMode::is_enabled());
}

torch::Tensor loss_of_logits(const torch::Tensor& logits, const torch::Tensor& targets,
                             const std::optional<Packing>& packing) {
  const torch::Tensor rows = logits.reshape({-1, logits.size(-1)}).to(torch::kFloat32);
  torch::Tensor losses =
      at::cross_entropy_loss(rows, targets.reshape({-1}), {}, at::Reduction::None);
  if (packing) losses = losses.masked_fill(packing->ignored.reshape({-1}), 0.0);
  return losses.sum() / (packing ? packing->mean_targets : static_cast<double>(targets.numel()));
}

}  // namespace athanor
