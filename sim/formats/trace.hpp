// SPDX-License-Identifier: Apache-2.0
// Timelines as Chrome traces, in the shape that Kineto gives them.
#pragma once

#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <iosfwd>
#include <optional>
#include <string>
#include <string_view>

namespace athanor {

/// Kineto's category for what the host does to launch an operation; athanor's traces use it too.
inline constexpr const char* kIssueCategory = "cuda_runtime";

/// Writes a Chrome/Kineto-shaped trace (opens in Perfetto): a process per rank, a track per lane
/// and one for the host that issues, device memory and power as counters; read_trace gives the same
/// timeline back. With `rank` only that rank's part, as tools want it that read a file per rank
/// (Holistic Trace Analysis).
void write_trace(std::ostream& out, const Program& program, const Timeline& timeline,
                 std::optional<int> rank = std::nullopt);
[[nodiscard]] Timeline read_trace(const std::string& path, const Program& program);
/// The same from text; `where` names it in errors. Throws InputError unless the trace belongs to
/// `program` and has each operation of a rank and step at most once.
[[nodiscard]] Timeline parse_trace(std::string_view text, const std::string& where,
                                   const Program& program);

}  // namespace athanor
