// SPDX-License-Identifier: Apache-2.0
#include "executor/cuda/issuing_thread.hpp"

#include <utility>

namespace athanor::cuda {

IssuingThread::IssuingThread() : thread_([this] { run(); }) {}

IssuingThread::~IssuingThread() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void IssuingThread::post(std::function<void()> task) {
  {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  changed_.notify_all();
}

void IssuingThread::wait_until_idle() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return tasks_.empty(); });
}

void IssuingThread::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return ending_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    const std::function<void()>& task = tasks_.front();  // a deque's elements stay where they are
    lock.unlock();
    task();
    lock.lock();
    tasks_.pop_front();
    if (tasks_.empty()) changed_.notify_all();
  }
}

}  // namespace athanor::cuda
