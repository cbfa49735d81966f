// SPDX-License-Identifier: Apache-2.0
// The host memory that other runs keep in /dev/shm, some of them after their death.
#pragma once

#include "executor/snapshot/run_memory.hpp"
#include "sim/base/quantities.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Returns a remark on what `others` hold, by path and size; empty where they hold nothing. Throws
/// InputError where `needed` bytes do not fit beside them in the `usable` ones of this machine:
/// the system would kill the run without a word.
[[nodiscard]] std::string remark_on_held_memory(const std::vector<RankMemory>& others, Bytes needed,
                                                Bytes usable);

}  // namespace athanor
