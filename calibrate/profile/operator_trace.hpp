// SPDX-License-Identifier: Apache-2.0
// Tells a tracer from which operator and phase launches come.
#pragma once

#include "calibrate/kernels/kernel_trace.hpp"

#include <ATen/record_function.h>

#include <atomic>
#include <memory>
#include <mutex>

namespace athanor {

/// Traces from construction to finish(). Observes the operators of every thread, autograd's
/// included. At most one lives at a time.
class OperatorTrace {
 public:
  /// Throws Error if the tracer cannot start.
  explicit OperatorTrace(KernelTracer& tracer);
  ~OperatorTrace();
  OperatorTrace(const OperatorTrace&) = delete;
  OperatorTrace& operator=(const OperatorTrace&) = delete;

  /// Begins and ends a phase. Launches outside of phases are left out.
  void begin(TracedPhase phase);
  void end();
  /// Ends the trace. The device has to be idle.
  [[nodiscard]] KernelTrace finish();

 private:
  class Call;
  static std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function);
  static void leave(const at::RecordFunction& function, at::ObserverContext* context);
  std::uint64_t add_origin(LaunchOrigin origin);
  void stop_observing() noexcept;

  KernelTracer& tracer_;
  at::CallbackHandle handle_;
  bool is_observing_ = true;
  std::atomic<bool> in_phase_ = false;
  std::mutex mutex_;  ///< guards trace_, to which autograd's thread adds
  KernelTrace trace_;
};

}  // namespace athanor
