// SPDX-License-Identifier: Apache-2.0
// Work on a rank's state that is cut off: in a process that ends where it reads a page that cannot
// be read.
#pragma once

#include "executor/memory/memory_pools.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/program.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>

namespace athanor::test {

inline constexpr std::size_t kPage = 4096;

/// A model whose embedding has many blocks of a redo log.
[[nodiscard]] Architecture architecture_of_many_blocks();

/// Fills the state after `steps` steps, and the gradients, at random.
void fill_state(const MemoryPools& pools, const Program& program, std::int64_t steps,
                Device& device, unsigned seed = 5);

/// Copy of some memory of which the pages from one on cannot be read: who does ends.
class GuardedCopy {
 public:
  GuardedCopy(const void* from, std::size_t bytes, std::size_t readable_pages);
  ~GuardedCopy();
  GuardedCopy(const GuardedCopy&) = delete;
  GuardedCopy& operator=(const GuardedCopy&) = delete;
  [[nodiscard]] const std::byte* data() const { return memory_; }

 private:
  std::size_t bytes_;
  std::byte* memory_;
};

/// Runs `work` in a child process, which it may end. Returns whether it came to its end.
bool in_a_process_of_its_own(const std::function<void()>& work);

}  // namespace athanor::test
