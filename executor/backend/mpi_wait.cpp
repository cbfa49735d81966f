// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/mpi_wait.hpp"

#include "sim/base/errors.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>
#include <thread>

namespace athanor {
namespace {

using Clock = std::chrono::steady_clock;

/// A sleep is at most this fraction of the time waited, so a wait grows by a tenth at most.
constexpr int kSleepFraction = 10;
constexpr Clock::duration kShortestSleep = std::chrono::microseconds(2);
constexpr Clock::duration kLongestSleep = std::chrono::microseconds(500);

/// Sleeps and never yields. A thread that yields waits until the computing threads have used up
/// their time slices (milliseconds); a thread that sleeps is put in front of them on waking.
void pause(Clock::time_point since) {
  const Clock::duration sleep = std::min((Clock::now() - since) / kSleepFraction, kLongestSleep);
  if (sleep >= kShortestSleep) {
    std::this_thread::sleep_for(sleep);
  }
}

bool is_complete(MPI_Request& request) {
  int done = 0;
  check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  return done != 0;
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

void wait_for(MPI_Request& request, const std::atomic<bool>* cancelled) {
  const Clock::time_point since = Clock::now();
  while (!is_complete(request)) {
    if (cancelled != nullptr && cancelled->load(std::memory_order_relaxed)) {
      throw Error("cancelled");
    }
    pause(since);
  }
}

}  // namespace athanor
