// SPDX-License-Identifier: Apache-2.0
// One training step of a PyTorch profiler (Kineto) trace: device seconds by module and phase, and
// as a profile's times. cli/interchange.md says what a trace has to hold for each.
#pragma once

#include "sim/model/kernel_classes.hpp"
#include "sim/model/profile.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Opens the trace at its beginning; it is read twice, in memory for one step's launches.
using OpenTrace = std::function<std::unique_ptr<std::istream>()>;

enum class KinetoPhase { Forward, Recompute, Backward, Other };
[[nodiscard]] const char* kineto_phase_name(
    KinetoPhase phase) noexcept;  ///< "forward", .., "other"

/// Device seconds of one module in one phase.
struct KinetoRow {
  std::string module;  ///< the trace's module or the unit's name; "" outside all ranges
  KinetoPhase phase = KinetoPhase::Other;
  std::array<Seconds, kNumKernelClasses> seconds{};  ///< by KernelClass
  [[nodiscard]] Seconds total() const noexcept;
  /// Seconds of a compute lane: all but communication and transfers.
  [[nodiscard]] Seconds compute() const noexcept;
};

struct KinetoTable {
  std::optional<std::int64_t> step;  ///< N of ProfilerStep#N; absent: the whole trace
  std::string device;                ///< name of the GPU, or ""
  std::vector<KinetoRow> rows;       ///< in the order in which modules first ran
  std::int64_t passes = 1;           ///< micro-batches: how often a unit ran forward
};

/// Sums the activities of the step `wanted` (default: the last whole one) by the range that
/// launched them: the innermost annotation or module, through correlation ids, and for backward
/// through the links from autograd's nodes to the forward operators. With an architecture, rows are
/// its units: modules are told by the names of its parameters or by the class names of Hugging
/// Face's models. Throws InputError where there is no such step, and for a trace that cannot be.
[[nodiscard]] KinetoTable read_kineto_step(const OpenTrace& open, const std::string& where,
                                           std::optional<std::int64_t> wanted,
                                           const Architecture* architecture);

/// Returns `base` with the phase seconds of `table` (made with base's architecture) at
/// `micro_batch`. Bytes and launch times stay, because a trace does not hold them. Throws
/// InputError that names the unit classes and phases that the trace lacks.
[[nodiscard]] Profile profile_from_kineto(const KinetoTable& table, const std::string& where,
                                          const Profile& base, std::int64_t micro_batch);

}  // namespace athanor
