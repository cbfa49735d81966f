// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace athanor::cuda {

/// Holds `stream` until `*flag` reaches `value`, or for a tenth of a second: a host that waits for
/// room in the stream would otherwise never get to raise the flag. `flag`: pinned host memory.
void launch_gate(cudaStream_t stream, const volatile std::uint32_t* flag, std::uint32_t value);

}  // namespace athanor::cuda
