// SPDX-License-Identifier: Apache-2.0
// Measures this machine: the entry for both backends.
#pragma once

#include "calibrate/power/power_fit.hpp"
#include "sim/base/progress.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <optional>
#include <string>

namespace athanor {

/// Number of ranks on the CPU backend when none is given.
inline constexpr int kDefaultRanks = 2;

struct CalibrationOptions {
  std::string backend = "auto";  ///< auto, cpu or cuda
  int ranks = 0;       ///< collectives are measured for 1 .. ranks; 0: kDefaultRanks, or every GPU
  bool quick = false;  ///< fewer sizes and repetitions
  std::string folder = ".";  ///< its file system is measured
  std::string command;       ///< command line, for the provenance
  /// Earlier platform of this machine: only the work of its host is measured again, for as many
  /// ranks. For GPUs only.
  std::optional<Platform> before;
  /// Called with the facts about the machine before anything is measured. What it throws ends the
  /// calibration.
  std::function<void(const Platform&)> described;
  OnProgress progress = nullptr;                   ///< called before each part, and in long ones
  std::function<void(const std::string&)> remark;  ///< called with a line about what was found
  std::function<void(const std::string&)> warn;    ///< called with what spoils the measurement
  /// Called with the measurements before the power model is fitted to them. For GPUs with an energy
  /// counter only.
  std::function<void(const PowerMeasurements&, const Provenance&)> power_measured;
};

/// Measures this machine. The CPU backend runs `program`, which is athanor-calibrate itself, under
/// mpirun to measure collectives. Throws InputError for a backend that is not there, and Error when
/// a measurement fails.
[[nodiscard]] Platform calibrate_machine(const CalibrationOptions& options,
                                         const std::string& program);

/// Measures collectives in one of the processes that mpirun started. Rank 0 writes the times to
/// `path`.
void run_collective_worker(bool quick, const std::string& path);

}  // namespace athanor
