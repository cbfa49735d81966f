// SPDX-License-Identifier: Apache-2.0
#include "executor/experts/routing.hpp"

#include "executor/experts/expert_operators.hpp"

#include <torch/autograd.h>

#include <tuple>

namespace athanor {
namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::Function;
using torch::autograd::variable_list;

constexpr std::int64_t kMostShort = 1 << 15;  // numbers from 0 that 16 bits with a sign hold

/// Chooses the largest values of each row, and returns them with their columns. LibTorch's own
/// gradient of top-k scatters, for which a GPU waits where results must be deterministic.
class Choose : public Function<Choose> {
 public:
  static variable_list forward(AutogradContext* context, const Tensor& values,
                               std::int64_t choices) {
    auto [chosen, columns] = at::topk(values, choices, -1);
    context->save_for_backward({columns});
    context->mark_non_differentiable({columns});
    context->saved_data["columns"] = values.size(1);
    return {chosen, columns};
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const Tensor columns = context->get_saved_variables()[0];
    const Tensor numbers = torch::arange(context->saved_data["columns"].toInt(), columns.options());
    Tensor result = torch::zeros({columns.size(0), numbers.size(0)}, gradients[0].options());
    for (std::int64_t i = 0; i < columns.size(1); ++i) {
      result = at::where(numbers == columns.narrow(1, i, 1), gradients[0].narrow(1, i, 1), result);
    }
    return {result, Tensor()};
  }
};

}  // namespace

Routing route(const Tensor& scores, std::int64_t per_token, bool normalized) {
  Routing routing;
  routing.probabilities = at::softmax(scores, -1, torch::kFloat32);
  const variable_list chosen = Choose::apply(routing.probabilities, per_token);
  const Tensor weights = normalized ? chosen[0] / chosen[0].sum(-1, /*keepdim=*/true) : chosen[0];
  routing.weights = weights.to(scores.scalar_type());
  const at::NoGradGuard no_gradient;
  // Sorting by short numbers takes a GPU fewer passes.
  const auto type = scores.size(1) <= kMostShort ? torch::kInt16 : torch::kInt64;
  Tensor sorted;
  std::tie(sorted, routing.pairs) =
      at::sort(chosen[1].flatten().to(type), /*stable=*/true, 0, false);
  routing.rows = inverse_permutation(routing.pairs);
  const Tensor numbers = torch::arange(scores.size(1), sorted.options());
  routing.ends = at::searchsorted(sorted, numbers, /*out_int32=*/true, /*right=*/true);
  return routing;
}

}  // namespace athanor
