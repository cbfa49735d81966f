// SPDX-License-Identifier: Apache-2.0
// ATHANOR_HOST_DEVICE: marks what is compiled for host and device.
#pragma once

#ifdef __CUDACC__
#define ATHANOR_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define ATHANOR_HOST_DEVICE inline __attribute__((always_inline))
#endif
