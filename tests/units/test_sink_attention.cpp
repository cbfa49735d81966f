// SPDX-License-Identifier: Apache-2.0
// Attention with sinks by LibTorch's operators; reference.py compares whole models.
#include "executor/backend/device_arena.hpp"
#include "executor/layers/attention.hpp"
#include "executor/layers/sink_attention.hpp"
#include "executor/units/arena_scope.hpp"
#include "tests/units/llama_cases.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>
#include <optional>
#include <vector>

namespace athanor {
namespace {

using test::AttentionCase;
using torch::Tensor;

TEST_CASE("attention with sinks is a softmax over scores and sink") {
  // Sequences of one block of queries and of several, with windows and documents.
  const auto of = GENERATE(AttentionCase{2, 7, 4, 2, 6}, AttentionCase{1, 150, 4, 4, 8},
                           AttentionCase{1, 150, 6, 2, 8, 5}, AttentionCase{1, 140, 2, 1, 8, 100},
                           AttentionCase{2, 9, 4, 1, 6, 0, {{0, 2, 5}, {0}}},
                           AttentionCase{2, 140, 2, 1, 6, 9, {{0}, {0, 70, 71}}});
  const auto dtype = GENERATE(torch::kFloat32, torch::kBFloat16);
  test::check_sink_attention(of, torch::kCPU, dtype);
}

TEST_CASE("a sink that nothing goes to changes nothing, and one that takes all leaves nothing") {
  const auto heads = [](std::int64_t number) { return torch::randn({2, number, 70, 8}); };
  const Tensor query = heads(4), key = heads(2), value = heads(2);
  const auto with = [&](double sink) {
    return sink_attention(query, key, value, torch::full({4}, sink), std::nullopt, 0);
  };
  CHECK(with(-std::numeric_limits<double>::infinity())
            .allclose(causal_attention(query, key, value), 1e-5, 1e-6));
  CHECK(with(1e4).abs().max().item<float>() == 0);
}

/// Most bytes that forward and backward take for a sequence, inputs and gradients included.
double peak_of(std::int64_t sequence, std::int64_t window) {
  DeviceArena arena;
  const ArenaScope scope(arena);
  std::vector<Tensor> leaves;
  for (const std::int64_t heads : {4, 2, 2}) {
    leaves.push_back(torch::randn({1, heads, sequence, 8}).requires_grad_());
  }
  const Tensor sinks = torch::zeros({4}).requires_grad_();
  sink_attention(leaves[0], leaves[1], leaves[2], sinks, std::nullopt, window)
      .backward(torch::ones({1, 4, sequence, 8}));
  return static_cast<double>(arena.peak());
}

TEST_CASE("memory of attention with sinks grows with the sequence, not with its square") {
  const std::int64_t window = GENERATE(0, 32);
  CHECK(peak_of(2048, window) < 2.1 * peak_of(1024, window));
}

}  // namespace
}  // namespace athanor
