// SPDX-License-Identifier: Apache-2.0
// Timelines as Chrome traces of Kineto's shape.
#pragma once

#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace athanor {

/// Kineto's category for the launch of an operation by the host. athanor's traces use it too.
inline constexpr const char* kIssueCategory = "cuda_runtime";

/// Writes a trace that opens in Perfetto. Each rank is a process with a track per lane and one for
/// the host that issues; device memory and power are counters. read_trace gives the same timeline
/// back. With `rank` only that rank's part is written, for tools that read a file per rank
/// (Holistic Trace Analysis).
void write_trace(std::ostream& out, const Program& program, const Timeline& timeline,
                 std::optional<int> rank = std::nullopt);
/// Reads a trace from a file; see parse_trace.
[[nodiscard]] Timeline read_trace(const std::string& path, const Program& program);
/// Reads a trace from text; `where` names it in errors. Throws InputError unless the trace belongs
/// to `program` and has each operation of a rank and step at most once.
[[nodiscard]] Timeline parse_trace(std::string_view text, const std::string& where,
                                   const Program& program);

}  // namespace athanor
