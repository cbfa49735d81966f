// SPDX-License-Identifier: Apache-2.0
// The fused operators' kernels against LibTorch's operators in fp64 on the host, forward and every
// gradient, at odd and at real sizes.
#include "executor/layers/fused_operators.hpp"
#include "tests/cuda/on_gpu.hpp"
#include "tests/units/fused_cases.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace {

using namespace athanor;
using test::any_dtype;
using test::FusedShape;
using test::gpu;

/// One row and less than a warp; rows that fill no block; the sizes of gpt2-1b and -4b; the widest.
FusedShape any_shape() {
  return GENERATE(FusedShape{1, 1, 8}, FusedShape{3, 43, 136}, FusedShape{2, 200, 1536},
                  FusedShape{1, 300, 3072}, FusedShape{1, 7, 4096}, FusedShape{1, 130, 12288});
}

struct Heads {
  FusedShape shape;
  std::int64_t count;
};

}  // namespace

TEST_CASE("the norm of a branch is that of fp64 on a GPU") {
  test::check_branch(any_shape(), gpu(), any_dtype());
}

TEST_CASE("an addition and its norm are those of fp64 on a GPU") {
  test::check_add_and_branch(any_shape(), gpu(), any_dtype());
}

TEST_CASE("products on a GPU are those of fp64, wherever their operands lie") {
  test::check_product(gpu(), any_dtype());
}

TEST_CASE("a small bias decides no ties on a GPU") { test::check_ties(gpu()); }

TEST_CASE("a product, its bias and its activation are those of fp64 on a GPU") {
  const FusedShape shape =
      GENERATE(FusedShape{1, 1, 8}, FusedShape{3, 43, 136}, FusedShape{1, 300, 3072});
  test::check_linear(shape, gpu(), any_dtype());
}

TEST_CASE("packed attention is that of fp64 on a GPU") {
  const Heads heads = GENERATE(Heads{{2, 33, 64}, 4}, Heads{{1, 1, 80}, 1}, Heads{{2, 256, 768}, 6},
                               Heads{{1, 129, 384}, 4});
  test::check_packed_attention(heads.shape, heads.count, gpu(), any_dtype());
}

TEST_CASE("activations are those of fp64 on a GPU") {
  const auto* const activation = GENERATE("gelu_new", "gelu", "relu", "silu");
  test::check_activation(any_shape(), activation, gpu(), any_dtype());
}

TEST_CASE("losses are those of fp64 on a GPU") {
  const std::int64_t vocabulary = GENERATE(61, 64, 50257);
  test::check_loss({2, 65, 96}, vocabulary, gpu(), any_dtype());
}

TEST_CASE("a loss that is not a number is seen on a GPU") { test::check_loss_is_nan(gpu()); }
