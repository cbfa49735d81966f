// SPDX-License-Identifier: Apache-2.0
// Results of one run of nccl-tests, from text or from JSON. Internal to this folder.
#pragma once

#include "sim/base/value_path.hpp"
#include "sim/model/platform.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

inline constexpr double kMicrosecond = 1e-6;

/// One size, as it was printed.
struct NcclTiming {
  ValuePath place;
  double bytes = 0;
  Seconds seconds = 0;
  double algorithm_bandwidth = 0, bus_bandwidth = 0;  ///< GB/s
  double wrong = 0;                                   ///< values that the check found wrong
};

struct NcclResults {
  explicit NcclResults(const ValuePath& where)
      : place(where), place_of_ranks(where), place_of_sizes(where) {}

  ValuePath place, place_of_ranks, place_of_sizes;
  const RingCollective* collective = nullptr;
  int ranks = 0;
  double rounding = 0;  ///< error of the printed bandwidths, in GB/s
  std::string version;  ///< for the notes
  std::vector<NcclTiming> timings;
};

/// Returns the collective that a program measures: "all_reduce_perf", "/opt/all_reduce_perf_mpi";
/// null for one that no platform holds.
[[nodiscard]] const RingCollective* collective_of_program(std::string_view program);

/// Gives the platform the curve of the results, and returns a line for people. Throws InputError
/// where the benchmark called values wrong, and where bandwidths are not what sizes, times and
/// ranks make.
std::string merge_nccl(const NcclResults& results, Platform& platform);

}  // namespace athanor
