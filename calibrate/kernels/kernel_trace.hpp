// SPDX-License-Identifier: Apache-2.0
// Trace of a device while units run, activity by activity. Free of CUDA: CUPTI is behind the
// interface (calibrate/cuda/cupti_tracer.hpp).
#pragma once

#include "sim/base/quantities.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace athanor {

enum class ActivityKind {
  Kernel,
  Copy,
  Memset,
  Runtime,   ///< a call of CUDA's runtime on the host
  Driver,    ///< a call of CUDA's driver on the host
  Overhead,  ///< time that tracing itself took
};

/// Nanoseconds on the tracer's clock, which host and device share.
using TraceTime = std::int64_t;

struct TracedActivity {
  ActivityKind kind = ActivityKind::Kernel;
  std::string name;  ///< demangled; copies and fills are named as by Kineto
  TraceTime start = 0;
  TraceTime end = 0;
  int device = 0;
  std::int64_t stream = 0;        ///< thread on the host, for calls
  std::uint32_t correlation = 0;  ///< equal for a call and what it launched
  std::uint64_t origin = 0;       ///< last origin that the calling thread had pushed; 0: none
  Bytes bytes = 0;                ///< moved by copies and fills
  [[nodiscard]] Seconds seconds() const noexcept {
    return static_cast<Seconds>(end - start) * 1e-9;
  }
};

[[nodiscard]] constexpr bool is_on_device(ActivityKind kind) noexcept {
  return kind == ActivityKind::Kernel || kind == ActivityKind::Copy || kind == ActivityKind::Memset;
}

/// Records what one device does between start() and stop(). All that can fail throws Error that
/// says what to do.
class KernelTracer {
 public:
  virtual ~KernelTracer() = default;
  /// Returns "13.0", for the provenance.
  [[nodiscard]] virtual std::string version() const = 0;
  virtual void start() = 0;
  /// Marks what the calling thread launches from now on with `origin`, which is not 0. Nests.
  virtual void push(std::uint64_t origin) noexcept = 0;
  virtual void pop() noexcept = 0;
  /// Ends the recording. Nothing may be running any more. Returns activities with an origin, and
  /// the overhead, in the order of their start.
  [[nodiscard]] virtual std::vector<TracedActivity> stop() = 0;
};

enum class UnitPhase { ForwardKeep, ForwardDiscard, Recompute, Backward };
inline constexpr int kNumUnitPhases = 4;
/// Returns "forward", "forward without autograd", "recompute" or "backward".
[[nodiscard]] const char* unit_phase_name(UnitPhase phase) noexcept;

/// One execution of a unit's phase.
struct TracedPhase {
  std::string unit_class;
  std::int64_t micro_batch = 0;
  UnitPhase phase = UnitPhase::ForwardKeep;
  int repetition = 0;
};

/// Origin of launches: an operator, or a phase outside of every operator.
struct LaunchOrigin {
  std::size_t phase = 0;  ///< index into KernelTrace::phases
  std::string name;       ///< the operator ("aten::mm"); empty: none
  double flops = 0;       ///< 0: not known
  double bytes = 0;       ///< size of its tensors, in and out; 0: not known
};

struct KernelTrace {
  std::vector<TracedPhase> phases;
  std::vector<LaunchOrigin> origins;  ///< TracedActivity::origin is an index into it, plus 1
  std::vector<TracedActivity> activities;

  /// Returns the origin of an activity; null if it has none.
  [[nodiscard]] const LaunchOrigin* origin_of(const TracedActivity& activity) const noexcept;
  /// Returns the time that tracing itself took.
  [[nodiscard]] Seconds overhead() const noexcept;
};

}  // namespace athanor
