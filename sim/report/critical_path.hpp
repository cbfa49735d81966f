// SPDX-License-Identifier: Apache-2.0
// The critical path of a step: a chain of operations, each of which starts when the one before has
// ended.
#pragma once

#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <string>
#include <vector>

namespace athanor {

/// All operations of one kind on the path.
struct PathPart {
  /// "backward", "adam", "host adam", ..; "launch" while the host had yet to launch the next
  /// operation.
  std::string name;
  Seconds seconds = 0;
};

/// Critical path of rank 0, longest part first. It leads from the end of the last step in
/// `timeline` back over one step_seconds, or as far as the timeline goes. From each operation it
/// goes to the one that ended last of those it waited for: its waits, in its own step and the one
/// before, and its lane. Making anything else faster leaves the step as long as it is.
[[nodiscard]] std::vector<PathPart> critical_path(const Program& program, const Timeline& timeline);

}  // namespace athanor
