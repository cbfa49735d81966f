// SPDX-License-Identifier: Apache-2.0
// What a step waits for: a chain of operations, each of which starts when the one before has ended.
#pragma once

#include "sim/model/program.hpp"
#include "sim/model/timeline.hpp"

#include <string>
#include <vector>

namespace athanor {

/// All operations of one kind on the path.
struct PathPart {
  std::string name;  ///< "backward", "adam", "host adam"; "launch": nothing ran until the host had
                     ///< launched what came next
  Seconds seconds = 0;
};

/// Of rank 0, from the end of the last step in `timeline` back over one step_seconds, or as far as
/// the timeline goes; longest part first. From each operation the path goes to what ended last of
/// those that it waited for: its waits, in its own step and the one before, and its lane. Making
/// anything else faster leaves the step as long as it is.
[[nodiscard]] std::vector<PathPart> critical_path(const Program& program, const Timeline& timeline);

}  // namespace athanor
