// SPDX-License-Identifier: Apache-2.0
// Measures this machine.
#pragma once

#include "calibrate/power/power_fit.hpp"
#include "sim/model/platform.hpp"

#include <functional>
#include <optional>
#include <string>

namespace athanor {

/// Of the CPU backend, where nobody says.
inline constexpr int kDefaultRanks = 2;

struct CalibrationOptions {
  std::string backend = "auto";  ///< auto, cpu or cuda
  int ranks = 0;                 ///< collectives are measured for 1 .. ranks; 0: 2, or every GPU
  bool quick = false;            ///< fewer sizes and repetitions
  std::string folder = ".";      ///< whose file system is measured
  std::string command;           ///< for the provenance
  /// This machine as it was: only what its host does is measured again. GPUs; with its ranks.
  std::optional<Platform> before;
  std::function<void(const std::string&)> progress;  ///< called with a line before each part
  /// Called with what the power model is about to be fitted to; GPUs whose energy can be read.
  std::function<void(const PowerMeasurements&, const Provenance&)> power_measured;
};

/// `program` is athanor-calibrate itself: the CPU backend runs it under mpirun to measure
/// collectives. Throws InputError for a backend that is not there, Error when a measurement fails.
[[nodiscard]] Platform calibrate_machine(const CalibrationOptions& options,
                                         const std::string& program);

/// The part of a calibration that runs under mpirun: rank 0 writes its times to `path`.
void run_collective_worker(bool quick, const std::string& path);

/// A table of the results, for people.
[[nodiscard]] std::string describe(const Platform& platform);

}  // namespace athanor
