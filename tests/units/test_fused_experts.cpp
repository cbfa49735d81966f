// SPDX-License-Identifier: Apache-2.0
// Experts whose gated product is a fused operator.
#include "executor/layers/fused_operators.hpp"
#include "tests/units/expert_cases.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

TEST_CASE("experts take the fused gate") {
  using namespace athanor;
  REQUIRE(fused::available(torch::zeros({16})));
  const auto by = GENERATE(GroupedBy::Loop, GroupedBy::Kernel);
  test::check_experts({37, 32, 24, 5, 2}, by, torch::kCPU, torch::kFloat32);
}
