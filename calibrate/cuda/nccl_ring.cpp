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
  // As between processes, which training's ranks are.
  setenv("NCCL_P2P_DIRECT_DISABLE", "1", /*overwrite=*/0);
  std::vector<int> devices(communicators_.size());
  std::iota(devices.begin(), devices.end(), 0);
  check_nccl(ncclCommInitAll(communicators_.data(), num_devices, devices.data()),
             "ncclCommInitAll");
}

// Abort and not destroy: it never waits, and nothing is under way that anybody would miss.
NcclRing::~NcclRing() {
  for (const ncclComm_t communicator : communicators_) ncclCommAbort(communicator);
}

}  // namespace athanor
