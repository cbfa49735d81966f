// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/parallel_blocks.hpp"

#include "sim/base/quantities.hpp"

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace athanor {
namespace {

/// Elements below which a wake-up costs more than the work: about 10 us of Adam.
constexpr std::int64_t kMinimumBlock = 16 * 1024;
constexpr std::int64_t kBlockAlignment = 64;
/// Blocks per thread: a thread that shares its core with another lane's leaves some to the others.
constexpr std::int64_t kBlocksPerThread = 8;

/// Helper threads that run the same task with their own index, over and over.
class ThreadTeam {
 public:
  using Task = std::function<void(int)>;

  ThreadTeam() = default;
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  ~ThreadTeam() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
  }

  /// Runs task(0) here and task(1) .. task(members - 1) on helpers.
  void run(int members, const Task& task) {
    grow(members - 1);
    {
      const std::lock_guard lock(mutex_);
      task_ = &task;
      members_ = members;
      unfinished_ = members - 1;
      ++generation_;
    }
    wake_.notify_all();
    task(0);
    std::unique_lock lock(mutex_);
    done_.wait(lock, [this] { return unfinished_ == 0; });
  }

 private:
  void grow(int helpers) {
    while (std::ssize(helpers_) < helpers) {
      const int index = static_cast<int>(helpers_.size()) + 1;
      helpers_.emplace_back([this, index, seen = generation_] { serve(index, seen); });
    }
  }

  void serve(int index, std::uint64_t seen) {
    std::unique_lock lock(mutex_);
    while (true) {
      wake_.wait(lock, [&] { return stopping_ || generation_ != seen; });
      if (stopping_) {
        return;
      }
      seen = generation_;
      if (index >= members_) {
        continue;
      }
      const Task& task = *task_;
      lock.unlock();
      task(index);
      lock.lock();
      if (--unfinished_ == 0) {
        done_.notify_one();
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const Task* task_ = nullptr;
  int members_ = 0;
  int unfinished_ = 0;
  std::uint64_t generation_ = 0;
  bool stopping_ = false;
  std::vector<std::jthread> helpers_;  // last: joined before the rest is destroyed
};

}  // namespace

void parallel_blocks(std::int64_t elements, int threads,
                     const std::function<void(std::int64_t, std::int64_t)>& body) {
  const std::int64_t useful = std::max<std::int64_t>(1, elements / kMinimumBlock);
  const int members = static_cast<int>(std::clamp<std::int64_t>(threads, 1, useful));
  if (members == 1) {
    body(0, elements);
    return;
  }
  const std::int64_t block = round_up(
      std::max(kMinimumBlock, elements / (members * kBlocksPerThread) + 1), kBlockAlignment);
  const std::int64_t blocks = (elements + block - 1) / block;
  parallel_tasks(blocks, members, [&](std::int64_t task) {
    body(task * block, std::min(elements, (task + 1) * block));
  });
}

void parallel_tasks(std::int64_t tasks, int threads,
                    const std::function<void(std::int64_t)>& body) {
  const int members =
      static_cast<int>(std::clamp<std::int64_t>(threads, 1, std::max<std::int64_t>(1, tasks)));
  if (members == 1) {
    for (std::int64_t task = 0; task < tasks; ++task) body(task);
    return;
  }
  std::atomic<std::int64_t> next = 0;
  thread_local ThreadTeam team;
  team.run(members, [&](int) {
    while (true) {
      const std::int64_t task = next.fetch_add(1, std::memory_order_relaxed);
      if (task >= tasks) return;
      body(task);
    }
  });
}

}  // namespace athanor
