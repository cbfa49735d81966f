// SPDX-License-Identifier: Apache-2.0
// Time by size of what one rank does alone.
#pragma once

#include "calibrate/activities/activities.hpp"
#include "calibrate/bench/samples.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace athanor {

/// Measures `make(size)` at each size: means of the middle half. Sizes ascend.
[[nodiscard]] Curve measure_curve(const std::vector<std::int64_t>& sizes, const StoppingRule& rule,
                                  const std::function<Activity(std::int64_t)>& make);

/// 1, 2, 4, .., three quarters of and all `host_cores` threads -> what `make(size, threads)` takes.
/// Sizes that would take a number of threads long are left out.
[[nodiscard]] std::map<int, Curve> measure_by_threads(
    const std::vector<std::int64_t>& sizes, int host_cores, const StoppingRule& rule,
    const std::function<Activity(std::int64_t, int)>& make);

/// Sequential reads and writes of a file in `folder`, by bytes.
struct FileCurves {
  Curve read, write;
  std::string method;  ///< "O_DIRECT", or how the page cache was kept out otherwise
};

/// Which files are measured, and how patiently.
struct FileMeasurementOptions {
  std::vector<Bytes> sizes;  ///< of one read or write, ascending
  Bytes file = 512 * kMiB;   ///< of each file that they go through
  Bytes piece = 16 * kMiB;   ///< of reads and writes beside others
  StoppingRule rule{};
};

/// As the executor keeps optimizer state (ScratchFile). Throws Error with the system's reason.
[[nodiscard]] FileCurves measure_files(const std::string& folder,
                                       const FileMeasurementOptions& extent);

/// Adds to `platform` what reads and writes at once, of one process or of several, leave of each
/// other's speed: the pairs, and the resource "nvme" that follows from them.
void measure_file_sharing(const std::string& folder, const FileMeasurementOptions& extent,
                          Platform& platform);

}  // namespace athanor
