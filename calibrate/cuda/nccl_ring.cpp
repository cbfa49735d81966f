// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/nccl_ring.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <cstdlib>
#include <numeric>

namespace athanor {

void check_nccl(ncclResult_t result, const char* what) {
  if (result == ncclSuccess) return;
  throw Error(fmt::format("{}: {} ({}). NCCL_DEBUG=WARN shows more.", what,
                          ncclGetErrorString(result), ncclGetLastError(nullptr)));
}

NcclRing::NcclRing(int num_devices) : communicators_(static_cast<std::size_t>(num_devices)) {
  // Ranks of a training are processes, between which there is no direct access.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
  std::vector<int> devices(communicators_.size());
  std::iota(devices.begin(), devices.end(), 0);
  check_nccl(ncclCommInitAll(communicators_.data(), num_devices, devices.data()),
             "ncclCommInitAll");
}

// Aborts, because that never waits, and nothing under way is needed any more.
NcclRing::~NcclRing() {
  for (const ncclComm_t communicator : communicators_) ncclCommAbort(communicator);
}

}  // namespace athanor
