// SPDX-License-Identifier: Apache-2.0
// Elixir's published constants. Its search takes them unchanged for every machine. They were fitted
// on its authors' node (A100-80GB, NVLink).
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
/// Bound on the number of chunk sizes to try: at most this over the number of parameters (as a
/// power of two, twice). Steps are at least kSmallestStep.
inline constexpr std::int64_t kSearchWork = 16 * 1024 * 1024;
inline constexpr Bytes kSmallestStep = 1024;

/// Rates of all GPUs of a node together: copies in GB/s, Adam in 1e9 elements per second.
struct Rates {
  double host_to_device = 0, device_to_host = 0;
  double device_adam = 0, host_adam = 0;
};

/// Returns the published fit for n GPUs: pinned copies of 10 GB, HybridAdam on 1e9 fp32 elements.
inline Rates published_rates(int n) {
  return {.host_to_device = 16.3 * n + 8.7,
          .device_to_host = 15.8 * n + 2.3,
          .device_adam = 50.0 * n,
          .host_adam = 1.66 * std::log(n) + 5.15};
}

/// Returns optimizer and parameter state per parameter, in elements of its type. A 16-bit parameter
/// plus three fp32 states is 14 bytes; an fp32 parameter plus three is 16.
inline std::int64_t state_elements(DataType dtype) { return dtype == DataType::Float32 ? 4 : 7; }

/// Returns the nanoseconds saved per element of device memory that is spent on cache.
inline double cache_gain(DataType dtype, const Rates& rates) {
  const auto element = static_cast<double>(size_of(dtype));
  return element / rates.host_to_device + element / rates.device_to_host;
}

/// Returns the nanoseconds saved per element of device memory that is spent on optimizer state,
/// over n GPUs.
inline double optimizer_gain(DataType dtype, int n, const Rates& rates) {
  const auto element = static_cast<double>(size_of(dtype));
  constexpr double kMasterBytes = 4;
  return n / static_cast<double>(state_elements(dtype)) *
         (kMasterBytes / rates.host_to_device + cache_gain(dtype, rates) +
          element / rates.device_to_host + 1 / rates.host_adam - 1 / rates.device_adam);
}

/// Returns whether the cache takes memory before optimizer state: the one decision of these
/// constants.
inline bool cache_first(DataType dtype, int n, const Rates& rates) {
  return cache_gain(dtype, rates) > optimizer_gain(dtype, n, rates);
}

}  // namespace athanor::elixir
