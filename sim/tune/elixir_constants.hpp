// SPDX-License-Identifier: Apache-2.0
// Elixir's published constants. Its search takes them as they stand for every machine; they were
// fitted on its authors' node (A100-80GB, NVLink).
#pragma once

#include "sim/model/quantities.hpp"

#include <cmath>

namespace athanor::elixir {

inline constexpr double kUsableFraction = 0.95;
inline constexpr double kActivationMargin = 1.25;
inline constexpr Bytes kDriverReserve = 2 * kGiB;  ///< for a CUDA context; not for other backends
inline constexpr Bytes kSmallestChunk = 32 * kMiB;
inline constexpr int kChunkRange = 3;     ///< chunk sizes up to this times the smallest
inline constexpr int kOverlapBlocks = 2;  ///< blocks set aside for prefetch and reduction
inline constexpr int kSmallestCache = 4;  ///< blocks, when optimizer states come first
inline constexpr int kPrefetchDepth = 1;
inline constexpr int kChunkTrials = 128;  ///< sizes tried; published: up to 16 Mi / parameters / 2

/// Aggregate bandwidth of pinned copies, in GB/s, for n GPUs.
inline double host_to_device(int n) { return 16.3 * n + 8.7; }
inline double device_to_host(int n) { return 15.8 * n + 2.3; }

/// Adam, in 1e9 elements per second, for n GPUs and for the node's CPUs.
inline double device_adam(int n) { return 50.0 * n; }
inline double host_adam(int n) { return 1.66 * std::log(n) + 5.15; }

/// Optimizer and parameter state per parameter, in elements of its type: 16-bit parameter plus
/// three fp32 states are 14 bytes, fp32 parameter plus three are 16.
inline double state_elements(DataType dtype) { return dtype == DataType::Float32 ? 4 : 7; }

/// Nanoseconds saved per element of device memory spent on cache.
inline double cache_gain(DataType dtype, int n) {
  const auto element = static_cast<double>(size_of(dtype));
  return element / host_to_device(n) + element / device_to_host(n);
}

/// Nanoseconds saved per element of device memory spent on optimizer state.
inline double optimizer_gain(DataType dtype, int n) {
  const auto element = static_cast<double>(size_of(dtype));
  constexpr double kMasterBytes = 4;
  return n / state_elements(dtype) *
         (kMasterBytes / host_to_device(n) + cache_gain(dtype, n) + element / device_to_host(n) +
          1 / host_adam(n) - 1 / device_adam(n));
}

/// The one decision that these constants make.
inline bool cache_first(DataType dtype, int n) {
  return cache_gain(dtype, n) > optimizer_gain(dtype, n);
}

}  // namespace athanor::elixir
