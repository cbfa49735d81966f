// SPDX-License-Identifier: Apache-2.0
#include "tests/calibrate/kernel_trace_samples.hpp"

namespace athanor::test {
namespace {

constexpr TraceTime kMicrosecond = 1000;
constexpr TraceTime kCall = 3 * kMicrosecond;
constexpr std::int64_t kHostThread = 4711;

}  // namespace

TraceBuilder& TraceBuilder::phase(const std::string& unit_class, UnitPhase phase, int repetition) {
  trace.phases.push_back({unit_class, 4, phase, repetition});
  return operation("", 0, 0);
}

TraceBuilder& TraceBuilder::operation(const std::string& name, double flops, double bytes) {
  trace.origins.push_back({trace.phases.size() - 1, name, flops, bytes});
  return *this;
}

TraceBuilder& TraceBuilder::launch(ActivityKind kind, const std::string& name,
                                   std::int64_t microseconds, Bytes bytes) {
  TracedActivity call;
  call.kind = ActivityKind::Runtime;
  call.name = kind == ActivityKind::Kernel ? "cudaLaunchKernel" : "cudaMemcpyAsync";
  call.start = now_;
  call.end = now_ + kCall;
  call.stream = kHostThread;
  call.correlation = ++correlation_;
  call.origin = trace.origins.size();
  TracedActivity launched = call;
  launched.kind = kind;
  launched.name = name;
  launched.start = call.end;
  launched.end = call.end + microseconds * kMicrosecond;
  launched.stream = 7;
  launched.bytes = bytes;
  now_ = launched.end;
  trace.activities.push_back(call);
  trace.activities.push_back(launched);
  return *this;
}

TraceBuilder& TraceBuilder::overhead(std::int64_t microseconds) {
  TracedActivity activity;
  activity.kind = ActivityKind::Overhead;
  activity.name = "Buffer Flush";
  activity.start = now_;
  now_ += microseconds * kMicrosecond;
  activity.end = now_;
  trace.activities.push_back(activity);
  return *this;
}

KernelTrace sample_trace() {
  TraceBuilder builder;
  for (const int repetition : {0, 1}) {
    builder.phase("block", UnitPhase::ForwardKeep, repetition)
        .operation("aten::native_layer_norm", 0, 3e6)
        .launch(ActivityKind::Kernel, "void vectorized_layer_norm_kernel<float>(int)", 10)
        .operation("aten::mm", 4e9, 2e6)
        .launch(ActivityKind::Kernel, "nvjet_sm90_tst_192x192", 50)
        .overhead(2)
        .operation("aten::copy_", 0, 8192)
        .launch(ActivityKind::Copy, "Memcpy DtoD (Device -> Device)", 4, 4096);
    builder.phase("block", UnitPhase::Backward, repetition)
        .launch(ActivityKind::Memset, "Memset (Device)", 2, 1024)
        .operation("aten::_flash_attention_backward", 5e9, 1e6)
        .launch(ActivityKind::Kernel, "void flash_bwd_dot_do_o_kernel<true>(int)", 20)
        .launch(ActivityKind::Kernel, "void flash_bwd_dq_dk_dv_loop_kernel<true>(int)", 100);
  }
  return builder.trace;
}

}  // namespace athanor::test
