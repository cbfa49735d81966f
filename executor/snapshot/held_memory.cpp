// SPDX-License-Identifier: Apache-2.0
#include "executor/snapshot/held_memory.hpp"

#include "executor/memory/shared_memory.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <set>

namespace athanor {

std::string remark_on_held_memory(const std::vector<RankMemory>& others, Bytes needed,
                                  Bytes usable) {
  Bytes held = 0;
  std::set<std::string> runs;
  for (const RankMemory& memory : others) {
    held += memory.bytes;
    runs.insert(memory.run);
  }
  if (held == 0) return {};
  const std::string holds =
      fmt::format("{} of memory in {} {}", format_bytes(held), kSharedMemoryFolder,
                  runs.size() == 1 ? "is held by another run, " + *runs.begin()
                                   : fmt::format("are held by {} other runs", runs.size()));
  if (held + needed > usable) {
    throw InputError(kSharedMemoryFolder,
                     fmt::format("leaves too little: {}, and this run needs {} of the {} that this "
                                 "machine has",
                                 holds, format_bytes(needed), format_bytes(usable)),
                     "Free what killed runs have left with 'athanor clean', or wait for the end of "
                     "those that are running.");
  }
  return holds + "; 'athanor clean' frees what killed runs have left";
}

}  // namespace athanor
