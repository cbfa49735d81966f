// SPDX-License-Identifier: Apache-2.0
// Flags in pinned memory that order streams with host threads. A stream waits for a flag without
// the host and sets one without an interrupt.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace athanor::cuda {

/// Makes later work of `stream` wait until *flag has reached `value`, in the cyclic order of 32
/// bits.
void stream_wait_at_least(cudaStream_t stream, std::uint32_t* flag, std::uint32_t value);

/// Sets *flag once all earlier work of `stream` is done and visible to the host.
void stream_write(cudaStream_t stream, std::uint32_t* flag, std::uint32_t value);

}  // namespace athanor::cuda
