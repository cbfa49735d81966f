// SPDX-License-Identifier: Apache-2.0
// NCCL communicators of several GPUs in one process.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <vector>

namespace athanor {

/// Communicators of the devices 0 .. n - 1. Each is used by a thread of its own. NCCL's direct
/// access is off, so that collectives take the paths that they take between processes.
class NcclRing {
 public:
  explicit NcclRing(int num_devices);
  ~NcclRing();
  NcclRing(const NcclRing&) = delete;
  NcclRing& operator=(const NcclRing&) = delete;

  [[nodiscard]] int size() const noexcept { return static_cast<int>(communicators_.size()); }
  [[nodiscard]] ncclComm_t rank(int device) const {
    return communicators_.at(static_cast<std::size_t>(device));
  }

 private:
  std::vector<ncclComm_t> communicators_;
};

/// Throws Error with NCCL's reason; `what` names the call.
void check_nccl(ncclResult_t result, const char* what);

}  // namespace athanor
