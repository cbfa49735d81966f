// SPDX-License-Identifier: Apache-2.0
// A hand-made trace, as CUPTI could have made it.
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"

#include <string>

namespace athanor::test {

/// Adds launches to a trace, one after the other on stream 7 of device 0. Times are microseconds.
class TraceBuilder {
 public:
  explicit TraceBuilder(TraceTime start = 1'700'000'000'000'000'000) : now_(start) {}

  /// Begins a phase. Following launches belong to it, outside of every operator.
  TraceBuilder& phase(const std::string& unit_class, UnitPhase phase, int repetition);
  /// Begins an operator. Following launches come from it.
  TraceBuilder& operation(const std::string& name, double flops, double bytes);
  /// Adds a call on the host, and what it launched.
  TraceBuilder& launch(ActivityKind kind, const std::string& name, std::int64_t microseconds,
                       Bytes bytes = 0);
  TraceBuilder& overhead(std::int64_t microseconds);

  KernelTrace trace;

 private:
  TraceTime now_;
  std::uint32_t correlation_ = 100;
};

/// Returns two repetitions of a block's forward and backward: products, attention, a norm, a fill
/// and a copy.
[[nodiscard]] KernelTrace sample_trace();

}  // namespace athanor::test
