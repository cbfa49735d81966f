// SPDX-License-Identifier: Apache-2.0
// Hand-made activities become the kernels of a profile.
#include "calibrate/kernels/kernel_costs.hpp"
#include "tests/calibrate/kernel_trace_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <map>

namespace athanor {
namespace {

using Catch::Approx;
using test::TraceBuilder;

std::map<std::string, KernelCost> by_name(const KernelTrace& trace, UnitPhase phase) {
  std::map<std::string, KernelCost> found;
  for (const KernelCost& kernel : kernel_costs(trace, phase)) found[kernel.name] = kernel;
  return found;
}

TEST_CASE("a phase's kernels are summed by name") {
  const KernelTrace trace = test::sample_trace();
  const std::vector<KernelCost> forward = kernel_costs(trace, UnitPhase::ForwardKeep);
  REQUIRE(forward.size() == 3);
  CHECK(forward[0].name == "nvjet_sm90_tst_192x192");
  CHECK(forward[0].kind == KernelClass::MatrixProduct);
  CHECK(forward[0].count == 1);
  CHECK(forward[0].seconds == Approx(50e-6));
  CHECK(forward[0].flops == 4e9);
  CHECK(forward[0].bytes == 2e6);
  CHECK(forward[1].name == "vectorized_layer_norm_kernel<float>");
  CHECK(forward[1].flops == 0);
  CHECK(forward[1].bytes == 3e6);
  CHECK(forward[2].name == "Memcpy DtoD (Device -> Device)");
  CHECK(forward[2].kind == KernelClass::Copy);
  CHECK(kernel_costs(trace, UnitPhase::Recompute).empty());
}

TEST_CASE("an operator's FLOPs and bytes go to its longest kernel, once") {
  const auto backward = by_name(test::sample_trace(), UnitPhase::Backward);
  CHECK(backward.at("flash_bwd_dq_dk_dv_loop_kernel<true>").flops == 5e9);
  CHECK(backward.at("flash_bwd_dq_dk_dv_loop_kernel<true>").bytes == 1e6);
  CHECK(backward.at("flash_bwd_dot_do_o_kernel<true>").flops == 0);
  CHECK(backward.at("flash_bwd_dot_do_o_kernel<true>").bytes == 0);

  const auto padded = by_name(TraceBuilder()
                                  .phase("block", UnitPhase::Backward, 0)
                                  .operation("aten::mm", 4e9, 2e6)
                                  .launch(ActivityKind::Kernel, "pad_elementwise", 60)
                                  .launch(ActivityKind::Kernel, "nvjet", 50)
                                  .trace,
                              UnitPhase::Backward);
  CHECK(padded.at("nvjet").flops == 4e9);
  CHECK(padded.at("nvjet").bytes == 0);
  CHECK(padded.at("pad_elementwise").flops == 0);
  CHECK(padded.at("pad_elementwise").bytes == 2e6);
}

TEST_CASE("times are medians of the repetitions, counts are means") {
  TraceBuilder builder;
  for (const int repetition : {0, 1, 2}) {
    builder.phase("block", UnitPhase::Recompute, repetition)
        .operation("aten::mm", 6, 3)
        .launch(ActivityKind::Kernel, "gemm", repetition == 1 ? 900 : 10)
        .operation("aten::mm", 6, 3)
        .launch(ActivityKind::Kernel, "gemm", 20);
    builder.operation("aten::add", 0, 0);
    if (repetition == 2) builder.launch(ActivityKind::Kernel, "seldom", 30);
  }
  const auto kernels = by_name(builder.trace, UnitPhase::Recompute);
  CHECK(kernels.at("gemm").seconds == Approx(30e-6));
  CHECK(kernels.at("gemm").count == 2);
  CHECK(kernels.at("gemm").flops == 12);
  CHECK(kernels.at("gemm").bytes == 6);
  CHECK(kernels.at(kFewKernels).seconds == 0);
  CHECK(kernels.at(kFewKernels).count == Approx(1.0 / 3));
}

TEST_CASE("kernels of little time become one line per class") {
  TraceBuilder builder;
  builder.phase("block", UnitPhase::Backward, 0);
  builder.launch(ActivityKind::Kernel, "gemm", 10'000);
  for (const char* name : {"elementwise_a", "elementwise_b", "elementwise_c", "odd"}) {
    builder.operation("aten::add", 0, 5).launch(ActivityKind::Kernel, name, 40);
  }
  builder.launch(ActivityKind::Kernel, "elementwise_large", 400);
  const std::vector<KernelCost> kernels = kernel_costs(builder.trace, UnitPhase::Backward);
  REQUIRE(kernels.size() == 4);
  CHECK(kernels[1].name == "elementwise_large");
  CHECK(kernels[2].name == kFewKernels);
  CHECK(kernels[2].kind == KernelClass::Elementwise);
  CHECK(kernels[2].count == 3);
  CHECK(kernels[2].seconds == Approx(120e-6));
  CHECK(kernels[2].bytes == 15);
  CHECK(kernels[3].name == kFewKernels);
  CHECK(kernels[3].kind == KernelClass::Other);
}

TEST_CASE("an activity without an origin belongs to no phase") {
  KernelTrace trace = test::sample_trace();
  const auto count = kernel_costs(trace, UnitPhase::ForwardKeep).size();
  for (const std::uint64_t origin : {std::uint64_t{0}, std::uint64_t{12345}}) {
    TracedActivity stray = trace.activities[1];
    stray.name = "stray";
    stray.origin = origin;
    trace.activities.push_back(stray);
  }
  CHECK(kernel_costs(trace, UnitPhase::ForwardKeep).size() == count);
  CHECK(trace.overhead() == Approx(4e-6));
  CHECK(kernel_costs({}, UnitPhase::Backward).empty());
}

TEST_CASE("traced kernels join costs that were timed without a trace") {
  std::vector<UnitCost> costs(2), traced(2);
  for (const std::size_t i : {0, 1}) {
    costs[i].forward_keep.seconds = 1;
    traced[i].forward_keep.seconds = 1.1;
    costs[i].backward.seconds = 2;
    traced[i].backward.seconds = 2;
    traced[i].backward.kernels = {{"gemm", KernelClass::MatrixProduct, double(i + 1), 1, 0, 0}};
  }
  const std::string note = take_kernels(costs, traced);
  CHECK(note.find("forward 1.100") != std::string::npos);
  CHECK(note.find("backward 1.000") != std::string::npos);
  CHECK(costs[0].forward_keep.seconds == 1);
  CHECK(costs[1].backward.kernels.at(0).count == 2);
  CHECK(costs[1].forward_keep.kernels.empty());
}

}  // namespace
}  // namespace athanor
