// SPDX-License-Identifier: Apache-2.0
// Runs work in forked children. Each starts with a copy of the parent's state, and no other process
// sees what it changes or breaks. The program must have no threads and must not use CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace athanor::cli {

struct ChildResult {
  std::string output;   ///< result of `work`
  std::string failure;  ///< message of its exception, or how the child ended; empty: it returned
};

/// Runs work(0) .. work(count - 1), each in a child of its own, at most `parallel` at once. Returns
/// results in the order of the numbers. Calls `on_done` with the number of children that are done.
/// Children end with this process. Throws Error if the system gives no more processes or pipes.
[[nodiscard]] std::vector<ChildResult> run_in_children(
    std::size_t count, std::size_t parallel, const std::function<std::string(std::size_t)>& work,
    const std::function<void(std::size_t done)>& on_done = nullptr);

}  // namespace athanor::cli
