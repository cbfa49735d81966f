// SPDX-License-Identifier: Apache-2.0
// Work in forked children: each has what the parent has, and nothing that it does or breaks is seen
// by the others. For programs without threads and without CUDA.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace athanor::cli {

struct ChildResult {
  std::string output;   ///< result of `work`
  std::string failure;  ///< its exception, or how the child ended; empty if it returned
};

/// Runs work(0) .. work(count - 1), each in a child of its own, at most `parallel` at once; results
/// are in order. `on_done` is told how many are done. Children end with this process. Throws Error
/// when the system gives no more processes or pipes.
[[nodiscard]] std::vector<ChildResult> run_in_children(
    std::size_t count, std::size_t parallel, const std::function<std::string(std::size_t)>& work,
    const std::function<void(std::size_t done)>& on_done = nullptr);

}  // namespace athanor::cli
