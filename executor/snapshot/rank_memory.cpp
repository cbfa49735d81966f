// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/rank_memory.hpp"

#include "executor/snapshot/run_memory.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

namespace athanor {

SharedMemory take_rank_memory(const std::string& path, Bytes bytes, bool is_resumed) {
  if (!is_resumed) {
    remove_rank_memory(path);
    return SharedMemory::create(path, bytes);
  }
  SharedMemory memory = SharedMemory::open(path);
  if (memory.bytes() == bytes) return memory;
  throw Error(fmt::format("{} has {} bytes, and this plan needs {}", path, memory.bytes(), bytes));
}

}  // namespace athanor
