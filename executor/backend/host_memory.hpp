// SPDX-License-Identifier: Apache-2.0
// Blocks of host memory.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstddef>
#include <functional>
#include <memory>

namespace athanor {

/// Owner of a block of memory of any kind; null for 0 bytes.
using MemoryBlock = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;

/// Allocates pageable host memory, in huge pages where the system has them. All processors zero it
/// now, so that a machine that lacks the memory fails here and not later. Throws Error.
[[nodiscard]] MemoryBlock allocate_host_memory(Bytes bytes);

/// Number of threads that clear or copy much host memory. Memory bounds it: more do not help.
[[nodiscard]] int memory_threads();

}  // namespace athanor
