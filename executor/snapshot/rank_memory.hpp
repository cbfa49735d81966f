// SPDX-License-Identifier: Apache-2.0
// The shared memory of one rank, as a run starts with it.
#pragma once

#include "executor/memory/shared_memory.hpp"
#include "sim/base/quantities.hpp"

#include <string>

namespace athanor {

/// Takes the memory at `path`: that of a killed process where `is_resumed`, else memory of zeros in
/// place of whatever is there. Throws Error where it is in use, or has another size.
[[nodiscard]] SharedMemory take_rank_memory(const std::string& path, Bytes bytes, bool is_resumed);

}  // namespace athanor
