// SPDX-License-Identifier: Apache-2.0
// Elixir's published constants. Its search takes them as they stand for every machine; they were
// fitted on its authors' node (A100-80GB, NVLink).
// Source: hpcaitech/Elixir e9ccbd9, elixir/search.
#pragma once

#include "sim/base/quantities.hpp"

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
/// Number of chunk sizes to try: at most this over the number of parameters (as a power of two,
/// twice), in steps of at least kSmallestStep.
inline constexpr std::int64_t kSearchWork = 16 * 1024 * 1024;
inline constexpr Bytes kSmallestStep = 1024;

/// Rates of all GPUs of a node together: copies in GB/s, Adam in 1e9 elements per second.
struct Rates {
  double host_to_device = 0, device_to_host = 0;
  double device_adam = 0, host_adam = 0;
};

/// Elixir's fit for n GPUs: pinned copies of 10 GB, HybridAdam on 1e9 fp32 elements.
inline Rates published_rates(int n) {
  return {.host_to_device = 16.3 * n + 8.7,
          .device_to_host = 15.8 * n + 2.3,
          .device_adam = 50.0 * n,
          .host_adam = 1.66 * std::log(n) + 5.15};
}

/// Optimizer and parameter state per parameter, in elements of its type: 16-bit parameter plus
/// three fp32 states are 14 bytes, fp32 parameter plus three are 16.
inline std::int64_t state_elements(DataType dtype) { return dtype == DataType::Float32 ? 4 : 7; }

/// Nanoseconds saved per element of device memory spent on cache.
inline double cache_gain(DataType dtype, const Rates& rates) {
  const auto element = static_cast<double>(size_of(dtype));
  return element / rates.host_to_device + element / rates.device_to_host;
}

/// Nanoseconds saved per element of device memory spent on optimizer state, over n GPUs.
inline double optimizer_gain(DataType dtype, int n, const Rates& rates) {
  const auto element = static_cast<double>(size_of(dtype));
  constexpr double kMasterBytes = 4;
  return n / static_cast<double>(state_elements(dtype)) *
         (kMasterBytes / rates.host_to_device + cache_gain(dtype, rates) +
          element / rates.device_to_host + 1 / rates.host_adam - 1 / rates.device_adam);
}

/// The one decision that these constants make.
inline bool cache_first(DataType dtype, int n, const Rates& rates) {
  return cache_gain(dtype, rates) > optimizer_gain(dtype, n, rates);
}

}  // namespace athanor::elixir
