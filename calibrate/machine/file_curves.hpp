// SPDX-License-Identifier: Apache-2.0
// Reads and writes of files: seconds by size, and how much they contend.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "calibrate/machine/pair_contention.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/platform.hpp"

#include <string>
#include <vector>

namespace athanor {

/// Sequential reads and writes of a file, by bytes.
struct FileCurves {
  Curve read, write;
  std::string method;  ///< "O_DIRECT", or how else the page cache was kept out
};

struct FileMeasurementOptions {
  std::vector<Bytes> sizes;  ///< bytes of one read or write, ascending
  Bytes file = 512 * kMiB;   ///< size of each file that they go through
  Bytes piece = 16 * kMiB;   ///< bytes of one read or write when contention is measured
  StoppingRule rule{};
};

/// Measures files in `folder`, which are read and written as the executor keeps optimizer state
/// (ScratchFile). Throws Error with the system's reason.
[[nodiscard]] FileCurves measure_files(const std::string& folder,
                                       const FileMeasurementOptions& options);

/// Measures files in `folder` into the curves of `platform`, and notes the method.
void measure_storage(const std::string& folder, const FileMeasurementOptions& options,
                     Platform& platform);

/// Measures two files at once: two readers, two writers, and one of each.
[[nodiscard]] std::vector<PairSlowdown> measure_file_pairs(const std::string& folder,
                                                           const FileMeasurementOptions& options);

}  // namespace athanor
