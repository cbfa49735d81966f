// SPDX-License-Identifier: Apache-2.0
// Compares experts with fp64 on the host, token by token, on every device and by every way of
// computing products.
#pragma once

#include "executor/experts/experts.hpp"
#include "tests/units/compare_parts.hpp"

namespace athanor::test {

struct ExpertCase {
  std::int64_t tokens, hidden, inner, experts, choices;
  bool skewed = false;    ///< all tokens use the same experts, and the others get none
  bool biases = false;    ///< biases in all layers of experts
  double gate_limit = 0;  ///< Gate::limit
};

/// Returns random scores, or scores that send all tokens to the same experts.
[[nodiscard]] torch::Tensor scores_of(const ExpertCase& of);

/// Checks the output and the gradients of tokens, weights of choices, and experts' weights and
/// biases.
void check_experts(const ExpertCase& of, GroupedBy by, torch::Device device,
                   torch::ScalarType dtype);

/// Checks that gradients of weights and biases are added to bound buffers, and returned nowhere.
void check_bound_gradients(const ExpertCase& of, GroupedBy by, torch::Device device,
                           torch::ScalarType dtype);

}  // namespace athanor::test
