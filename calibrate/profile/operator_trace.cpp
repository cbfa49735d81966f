// SPDX-License-Identifier: Apache-2.0
#include "calibrate/profile/operator_trace.hpp"

#include "calibrate/profile/operator_costs.hpp"

#include <atomic>
#include <optional>
#include <utility>

namespace athanor {
namespace {

/// Trace that LibTorch's callbacks, which are plain functions, add to.
std::atomic<OperatorTrace*> active = nullptr;

LaunchOrigin origin_of_call(const at::RecordFunction& function) {
  LaunchOrigin origin;
  origin.name = function.name();
  if (const std::optional<c10::FunctionSchema> schema = function.operator_schema()) {
    const OperatorCall call{*schema, function.inputs()};
    origin.flops = operator_flops(call);
    origin.bytes = operator_input_bytes(call);
  }
  return origin;
}

}  // namespace

/// State from an operator's beginning to its end.
class OperatorTrace::Call final : public at::ObserverContext {
 public:
  explicit Call(std::uint64_t origin) : origin_(origin) {}
  [[nodiscard]] std::uint64_t origin() const noexcept { return origin_; }

 private:
  std::uint64_t origin_;
};

OperatorTrace::OperatorTrace(KernelTracer& tracer) : tracer_(tracer) {
  tracer_.start();
  active = this;
  handle_ = at::addGlobalCallback(
      at::RecordFunctionCallback(&OperatorTrace::enter, &OperatorTrace::leave)
          .needsInputs(true)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

/// Without finish(), the tracer goes on until it is started again or destroyed.
OperatorTrace::~OperatorTrace() {
  if (is_observing_) stop_observing();
}

void OperatorTrace::begin(TracedPhase phase) {
  {
    const std::lock_guard lock(mutex_);
    trace_.phases.push_back(std::move(phase));
  }
  tracer_.push(add_origin({}));
  in_phase_ = true;
}

void OperatorTrace::end() {
  in_phase_ = false;
  tracer_.pop();
}

KernelTrace OperatorTrace::finish() {
  stop_observing();
  trace_.activities = tracer_.stop();
  return std::move(trace_);
}

void OperatorTrace::stop_observing() noexcept {
  at::removeCallback(handle_);
  active = nullptr;
  is_observing_ = false;
}

std::uint64_t OperatorTrace::add_origin(LaunchOrigin origin) {
  const std::lock_guard lock(mutex_);
  origin.phase = trace_.phases.size() - 1;
  trace_.origins.push_back(std::move(origin));
  return trace_.origins.size();
}

std::unique_ptr<at::ObserverContext> OperatorTrace::enter(const at::RecordFunction& function) {
  OperatorTrace* const trace = active;
  if (trace == nullptr || !trace->in_phase_) return nullptr;
  const std::uint64_t origin = trace->add_origin(origin_of_call(function));
  trace->tracer_.push(origin);
  return std::make_unique<Call>(origin);
}

void OperatorTrace::leave(const at::RecordFunction& function, at::ObserverContext* context) {
  OperatorTrace* const trace = active;
  if (trace == nullptr || context == nullptr) return;
  trace->tracer_.pop();
  if (!function.operator_name()) return;  // a node of autograd's
  const double bytes = operator_output_bytes(function.name(), function.outputs());
  const std::lock_guard lock(trace->mutex_);
  trace->trace_.origins[static_cast<Call*>(context)->origin() - 1].bytes += bytes;
}

}  // namespace athanor
