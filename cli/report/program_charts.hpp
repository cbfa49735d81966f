// SPDX-License-Identifier: Apache-2.0
// Charts of one step of a program: its timelines and its memory.
#pragma once

#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <nlohmann/json.hpp>

namespace athanor::cli {

/// Returns the last step of the timelines. Times are microseconds since rank 0's first operation on
/// the compute lane in that step:
/// - "lanes" and "kinds": names;
/// - "operations": {"name", "lane", "kind"}, lists of equal length; lane and kind are indices;
/// - "predicted" and "measured": a list of {"rank", "operation", "start", "end"}, whose
///   operations are indices of the lists above;
/// - "shown" and "of": how many operations of one rank, and "ranks" and "of_ranks". The longest
///   operations and the first ranks are kept, so that a page stays small.
/// `measured` may be null: a plan has only a prediction.
[[nodiscard]] nlohmann::ordered_json timelines_json(const Program& program,
                                                    const Timeline& predicted,
                                                    const Timeline* measured);

/// Returns the level of rank 0's device memory over the same step, a series of microseconds and
/// bytes. Levels are the program's, which are exact; times are the timeline's.
[[nodiscard]] nlohmann::ordered_json device_memory_json(const Program& program,
                                                        const Timeline& timeline);

}  // namespace athanor::cli
