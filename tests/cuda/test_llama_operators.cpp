// SPDX-License-Identifier: Apache-2.0
// The llama family's kernels against LibTorch's operators in fp64 on the host, forward and every
// gradient, at odd and at real sizes.
#include "tests/cuda/on_gpu.hpp"
#include "tests/units/llama_cases.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace {

using namespace athanor;
using test::any_dtype;
using test::AttentionCase;
using test::FusedShape;
using test::gpu;

FusedShape any_shape() {
  return GENERATE(FusedShape{1, 1, 8}, FusedShape{3, 43, 136}, FusedShape{2, 100, 3584},
                  FusedShape{1, 70, 4096});
}

}  // namespace

TEST_CASE("RMS norm and the products of layers side by side are those of fp64 on a GPU") {
  test::check_norm_and_project(any_shape(), GENERATE(false, true), gpu(), any_dtype());
}

TEST_CASE("a projection added to the residual is that of fp64 on a GPU") {
  test::check_add_projection(any_shape(), GENERATE(false, true), gpu(), any_dtype());
}

TEST_CASE("gated projections are those of fp64 on a GPU") {
  const auto* const activation = GENERATE("gelu_new", "gelu", "silu");
  test::check_gated_projection(any_shape(), activation, GENERATE(false, true), gpu(), any_dtype());
}

TEST_CASE("rotated heads are those of fp64 on a GPU") {
  const auto of = GENERATE(AttentionCase{1, 1, 1, 1, 16}, AttentionCase{2, 33, 32, 8, 128},
                           AttentionCase{1, 50, 40, 40, 256}, AttentionCase{2, 21, 14, 2, 64},
                           AttentionCase{2, 30, 3, 1, 80, 0, {{0, 11}, {0, 1, 29}}});
  test::check_rotation(of, gpu(), any_dtype());
}

TEST_CASE("normalized and rotated heads are those of fp64 on a GPU") {
  const auto of = GENERATE(AttentionCase{1, 1, 1, 1, 16}, AttentionCase{2, 333, 32, 8, 128},
                           AttentionCase{1, 50, 40, 40, 256}, AttentionCase{2, 21, 14, 2, 64},
                           AttentionCase{2, 30, 3, 1, 32, 0, {{0, 11}, {0, 1, 29}}});
  test::check_norm_and_rotation(of, gpu(), any_dtype());
}

TEST_CASE("attention with rotary positions is that of fp64 on a GPU") {
  const auto of = GENERATE(
      AttentionCase{2, 128, 4, 4, 64}, AttentionCase{1, 129, 8, 2, 128},
      AttentionCase{2, 256, 14, 2, 64}, AttentionCase{1, 300, 4, 1, 128, 100},
      AttentionCase{1, 77, 4, 2, 256}, AttentionCase{2, 200, 4, 2, 128, 0, {{0, 3, 100}, {0}}},
      AttentionCase{1, 200, 4, 1, 64, 50, {{0, 120}}}, AttentionCase{1, 40, 3, 3, 80},
      // Backward in slices: of sequences, of key heads, of a key head's query heads; by flash.
      AttentionCase{3, 512, 8, 2, 64, 0, {}, 12 << 20},
      AttentionCase{2, 512, 8, 4, 128, 0, {}, 6 << 20},
      AttentionCase{2, 512, 8, 2, 128, 0, {}, 3 << 20}, AttentionCase{1, 512, 4, 2, 64, 0, {}, 1});
  const bool norms = of.head_dim != 80 && GENERATE(false, true);
  test::check_attend(of, norms, gpu(), torch::kBFloat16);
}
