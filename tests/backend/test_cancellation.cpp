// SPDX-License-Identifier: Apache-2.0
// Run by mpirun. Rank 0 waits for rank 1, which hangs; it must give up when it is cancelled, refuse
// further use, and end the whole job. No Catch2: MPI_Abort leaves no time for a report.
#include "executor/backend/collectives_mpi.hpp"
#include "sim/base/errors.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>

namespace {

std::string failure_of_barrier(athanor::Collectives& ranks) {
  try {
    ranks.barrier();
  } catch (const athanor::Error& error) {
    return error.what();
  }
  return "no failure";
}

}  // namespace

int main() {
  constexpr std::chrono::minutes kHang{1};
  constexpr std::chrono::milliseconds kPatience{50};
  const auto ranks = athanor::make_mpi_collectives();
  if (ranks->rank() > 0) {
    std::this_thread::sleep_for(kHang);
    return 1;
  }
  std::atomic<bool> cancelled{false};
  ranks->set_cancel_flag(&cancelled);
  std::jthread canceller([&] {
    std::this_thread::sleep_for(kPatience);
    cancelled = true;
  });
  const std::string first = failure_of_barrier(*ranks);
  const std::string second = failure_of_barrier(*ranks);
  canceller.join();
  const bool expected = first == "cancelled" && second.find("failed before") != std::string::npos;
  std::printf("%s\n", expected ? "cancelled as expected" : (first + "; " + second).c_str());
  std::fflush(stdout);
  athanor::abort_job(1);
}
