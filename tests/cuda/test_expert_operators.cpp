// SPDX-License-Identifier: Apache-2.0
// Experts on a GPU against fp64 on the host: products of all experts in one kernel, and expert by
// expert.
#include "tests/cuda/on_gpu.hpp"
#include "tests/units/expert_cases.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace {

using namespace athanor;
using test::any_dtype;
using test::ExpertCase;
using test::gpu;

ExpertCase any_case() {
  return GENERATE(ExpertCase{1, 64, 32, 8, 2}, ExpertCase{333, 128, 64, 8, 2},
                  ExpertCase{100, 64, 96, 128, 8}, ExpertCase{257, 256, 64, 16, 4},
                  ExpertCase{40, 2304, 48, 4, 3}, ExpertCase{9, 64, 2304, 6, 5},
                  ExpertCase{200, 64, 32, 16, 2, /*skewed=*/true});
}

GroupedBy any_way() { return GENERATE(GroupedBy::Kernel, GroupedBy::Loop); }

}  // namespace

TEST_CASE("experts are those of fp64 on a GPU") {
  test::check_experts(any_case(), any_way(), gpu(), any_dtype());
}

TEST_CASE("gradients of experts are added to bound buffers on a GPU") {
  test::check_bound_gradients(any_case(), any_way(), gpu(), any_dtype());
}

TEST_CASE("experts of widths that no vector divides are those of fp64 on a GPU") {
  test::check_experts({11, 64, 12, 5, 2}, GroupedBy::Loop, gpu(), any_dtype());
}

TEST_CASE("a GPU takes all experts in one kernel") {
  const auto options = torch::TensorOptions(gpu()).dtype(torch::kBFloat16);
  const ExpertLayers layers{torch::zeros({4 * 64, 32}, options).split(64), 2};
  CHECK(grouped_by(torch::zeros({3, 32}, options), layers) == GroupedBy::Kernel);
  const ExpertLayers odd{torch::zeros({4 * 5, 12}, options).split(5), 2};
  CHECK(grouped_by(torch::zeros({3, 12}, options), odd) == GroupedBy::Loop);
}
