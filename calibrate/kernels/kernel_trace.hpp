// SPDX-License-Identifier: Apache-2.0
// What a device did while units ran, activity by activity. Free of CUDA: a seam, behind which CUPTI
// is (calibrate/cuda/cupti_tracer.hpp).
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
  Overhead,  ///< what tracing itself took
};

/// Nanoseconds on the tracer's clock, which is one for host and device.
using TraceTime = std::int64_t;

struct TracedActivity {
  ActivityKind kind = ActivityKind::Kernel;
  std::string name;  ///< demangled; of copies and fills as Kineto writes them
  TraceTime start = 0;
  TraceTime end = 0;
  int device = 0;
  std::int64_t stream = 0;        ///< thread on the host, for calls
  std::uint32_t correlation = 0;  ///< the same for a call and what it launched
  std::uint64_t origin = 0;       ///< what the calling thread had pushed last; 0: nothing
  Bytes bytes = 0;                ///< of copies and fills
  [[nodiscard]] Seconds seconds() const noexcept {
    return static_cast<Seconds>(end - start) * 1e-9;
  }
};

[[nodiscard]] constexpr bool is_on_device(ActivityKind kind) noexcept {
  return kind == ActivityKind::Kernel || kind == ActivityKind::Copy || kind == ActivityKind::Memset;
}

/// Records what one device does between start() and stop(). What can fail throws Error with the way
/// out.
class KernelTracer {
 public:
  virtual ~KernelTracer() = default;
  /// "13.0", for the provenance.
  [[nodiscard]] virtual std::string version() const = 0;
  virtual void start() = 0;
  /// From now on what the calling thread launches comes from `origin`, which is not 0. Nests.
  virtual void push(std::uint64_t origin) noexcept = 0;
  virtual void pop() noexcept = 0;
  /// Ends the recording, which nothing may be running for any more. Activities with an origin, and
  /// the overhead; in the order of their start.
  [[nodiscard]] virtual std::vector<TracedActivity> stop() = 0;
};

enum class UnitPhase { ForwardKeep, ForwardDiscard, Recompute, Backward };
inline constexpr int kNumUnitPhases = 4;
/// "forward", "forward without autograd", "recompute", "backward".
[[nodiscard]] const char* unit_phase_name(UnitPhase phase) noexcept;

/// One execution of a unit's phase.
struct TracedPhase {
  std::string unit_class;
  std::int64_t micro_batch = 0;
  UnitPhase phase = UnitPhase::ForwardKeep;
  int repetition = 0;
};

/// What launches come from: an operator, or a phase outside of every operator.
struct LaunchOrigin {
  std::size_t phase = 0;  ///< index into KernelTrace::phases
  std::string name;       ///< of the operator ("aten::mm"); empty: none
  double flops = 0;       ///< 0: not known
  double bytes = 0;       ///< of its tensors, in and out; 0: not known
};

struct KernelTrace {
  std::vector<TracedPhase> phases;
  std::vector<LaunchOrigin> origins;  ///< TracedActivity::origin is an index into it, plus 1
  std::vector<TracedActivity> activities;

  /// Null for an activity that comes from nowhere.
  [[nodiscard]] const LaunchOrigin* origin_of(const TracedActivity& activity) const noexcept;
  /// What tracing itself took.
  [[nodiscard]] Seconds overhead() const noexcept;
};

}  // namespace athanor
