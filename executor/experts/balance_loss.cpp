// SPDX-License-Identifier: Apache-2.0
#include "executor/experts/balance_loss.hpp"

#include <torch/autograd.h>

#include <vector>

namespace athanor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kParts = 4;  // two sums, each a value and its rest

/// Adds fp32 [2 * experts] to sums. A value and its rest have the same gradient, that of their sum.
class AddToSums : public Function<AddToSums> {
 public:
  static Tensor forward(AutogradContext* /*context*/, const Tensor& sums, const Tensor& more) {
    const std::vector<Tensor> parts = sums.to(torch::kFloat32).chunk(2);
    const Tensor total = parts[0] + parts[1] + more;
    const Tensor value = total.to(sums.scalar_type());
    return torch::cat({value, (total - value.to(torch::kFloat32)).to(sums.scalar_type())});
  }

  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0], gradients[0].chunk(2)[0].to(torch::kFloat32)};
  }
};

}  // namespace

Tensor joined(const Routed& routed) { return torch::cat({routed.hidden.flatten(), routed.sums}); }

Routed parted(const Tensor& joined, const Tensor& like, std::int64_t hidden) {
  const std::int64_t elements = like.numel() * hidden;
  const std::vector<Tensor> parts = joined.split_with_sizes({elements, joined.numel() - elements});
  return {parts[0].view({like.size(0), like.size(1), hidden}), parts[1]};
}

Tensor no_sums(std::int64_t experts, const Tensor& like) {
  return torch::zeros({kParts * experts}, like.options());
}

Tensor with_routing(const Tensor& sums, const Routing& routing) {
  const auto tokens = static_cast<double>(routing.weights.size(0));
  const Tensor counts = at::diff(routing.ends, 1, 0, torch::zeros({1}, routing.ends.options()));
  return AddToSums::apply(
      sums, torch::cat({counts.to(torch::kFloat32) / tokens, routing.probabilities.mean(0)}));
}

Tensor balance_loss(const Tensor& sums, std::int64_t blocks) {
  const std::vector<Tensor> parts = sums.to(torch::kFloat32).chunk(2);
  const std::vector<Tensor> total = (parts[0] + parts[1]).chunk(2);
  const auto experts = static_cast<double>(total[0].size(0));
  const auto number = static_cast<double>(blocks);
  return (total[0].detach() * total[1]).sum() * (experts / (number * number));
}

}  // namespace athanor
