// SPDX-License-Identifier: Apache-2.0
// One training step of a PyTorch profiler (Kineto) trace: device seconds by module and phase, and a
// profile from them. cli/interchange.md says what a trace has to hold for each.
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

/// Opens the trace at its beginning. The trace is read twice; memory holds one step's launches.
using OpenTrace = std::function<std::unique_ptr<std::istream>()>;

enum class KinetoPhase { Forward, Recompute, Backward, Other };
[[nodiscard]] const char* kineto_phase_name(
    KinetoPhase phase) noexcept;  ///< "forward", .., "other"

/// Device seconds of one module in one phase.
struct KinetoRow {
  std::string module;  ///< module of the trace, or the unit's name; "" outside all ranges
  KinetoPhase phase = KinetoPhase::Other;
  std::array<Seconds, kNumKernelClasses> seconds{};  ///< by KernelClass
  [[nodiscard]] Seconds total() const noexcept;
  /// Returns the seconds of the compute lane: all but communication and transfers.
  [[nodiscard]] Seconds compute() const noexcept;
};

struct KinetoTable {
  std::optional<std::int64_t> step;  ///< N of ProfilerStep#N; absent: the whole trace
  std::string device;                ///< name of the GPU, or ""
  std::vector<KinetoRow> rows;       ///< in the order in which modules first ran
  std::int64_t passes = 1;           ///< micro-batches: the number of times that a unit ran forward
};

/// Sums the activities of the step `wanted` (default: the last whole step) by the range that
/// launched them. That is the innermost annotation or module, found through correlation ids.
/// Backward is found through the links from autograd's nodes to the forward operators.
/// With an architecture, rows are its units. Modules are recognised by the names of its parameters
/// or by the class names of Hugging Face's models. Throws InputError where the trace has no such
/// step or is malformed.
[[nodiscard]] KinetoTable read_kineto_step(const OpenTrace& open, const std::string& where,
                                           std::optional<std::int64_t> wanted,
                                           const Architecture* architecture);

/// Returns `base` with the phase seconds of `table` at `micro_batch`. `table` must be made with
/// base's architecture. Bytes and launch times stay, because a trace does not hold them. Throws
/// InputError that names the unit classes and phases that the trace lacks.
[[nodiscard]] Profile profile_from_kineto(const KinetoTable& table, const std::string& where,
                                          const Profile& base, std::int64_t micro_batch);

}  // namespace athanor
