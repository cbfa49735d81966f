// SPDX-License-Identifier: Apache-2.0
// The thread that puts operations on a GPU's streams.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace athanor::cuda {

/// Runs tasks one after the other, in the order in which they are posted. All lanes of a GPU issue
/// here, those of training and those of evaluation: LibTorch gives every thread that multiplies a
/// workspace of its own, and what athanor finds for a shape is kept by thread, too.
class IssuingThread {
 public:
  IssuingThread();
  /// Waits for the tasks that are posted.
  ~IssuingThread();
  IssuingThread(const IssuingThread&) = delete;
  IssuingThread& operator=(const IssuingThread&) = delete;

  /// `task` must not throw.
  void post(std::function<void()> task);
  /// Waits until no task is left.
  void wait_until_idle();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;  ///< the first may be running
  bool ending_ = false;
  std::thread thread_;
};

}  // namespace athanor::cuda
