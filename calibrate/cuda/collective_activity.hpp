// SPDX-License-Identifier: Apache-2.0
// Collectives between the GPUs of this machine.
#pragma once

#include "calibrate/cuda/nccl_ring.hpp"
#include "calibrate/device/cuda_calibrator.hpp"

#include <memory>

namespace athanor {

/// Repeats a collective between all devices of `ring`. Each rank runs on a thread of its own, as it
/// would in a process of its own. See CudaCalibrator::collective().
[[nodiscard]] ActivityPtr cuda_collective(std::shared_ptr<NcclRing> ring, CollectiveKind kind,
                                          Bytes bytes);

/// Measures the median time that a rank's host spends to launch one small all-gather between all
/// devices.
[[nodiscard]] Seconds collective_issue(const NcclRing& ring);

}  // namespace athanor
