// SPDX-License-Identifier: Apache-2.0
#include "executor/lanes/mpi_wait.hpp"

#include "sim/model/errors.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

namespace athanor {
namespace {

constexpr int kPollsBeforeYield = 64;
constexpr int kPollsBeforeSleep = 256;
constexpr std::chrono::microseconds kSleep{20};

void pause(int polls, Patience patience) {
  if (polls < kPollsBeforeYield) {
    return;
  }
  if (patience == Patience::Short || polls < kPollsBeforeSleep) {
    std::this_thread::yield();
  } else {
    std::this_thread::sleep_for(kSleep);
  }
}

}  // namespace

void check_mpi(int status) {
  if (status == MPI_SUCCESS) {
    return;
  }
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw Error("MPI: " + std::string(text.data(), static_cast<std::size_t>(length)));
}

void wait_for(MPI_Request& request, Patience patience, const std::atomic<bool>* cancelled) {
  for (int polls = 0;; polls = std::min(polls + 1, kPollsBeforeSleep)) {
    int done = 0;
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
    if (done != 0) {
      return;
    }
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
      throw Error("cancelled");
    }
    pause(polls, patience);
  }
}

}  // namespace athanor
