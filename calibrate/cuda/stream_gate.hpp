// SPDX-License-Identifier: Apache-2.0
// A stream gate: a kernel of one thread that waits until the host raises a flag. What is launched
// behind it starts only when the gate opens.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace athanor::cuda {

/// Holds `stream` until `*flag`, in pinned host memory, reaches `value`. Gives up after a tenth of
/// a second, because a host that waits for room in the stream never gets to raise the flag.
void launch_stream_gate(cudaStream_t stream, const volatile std::uint32_t* flag,
                        std::uint32_t value);

}  // namespace athanor::cuda
