// SPDX-License-Identifier: Apache-2.0
// The calibration of the CPU backend on one node, and what it measures between ranks.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "calibrate/machine/calibrate_machine.hpp"
#include "calibrate/machine/file_curves.hpp"
#include "calibrate/machine/node_bench.hpp"
#include "sim/model/platform.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace athanor {

/// Sizes and repetitions.
struct HostMeasurementOptions {
  std::vector<Bytes> copies, collectives;
  std::vector<std::int64_t> elements;
  std::int64_t matrix = 0;
  StoppingRule rule, pair_rule;
  FileMeasurementOptions files;
};

/// Returns them for a full calibration, or a quick one.
[[nodiscard]] HostMeasurementOptions host_measurement_options(bool quick);

/// Calibrates one part after the other, for `options.ranks` ranks. `nodes`: the ranks of a job,
/// which measure collectives and the network; null: `program` is started under mpirun for that.
[[nodiscard]] Platform calibrate_host(const CalibrationOptions& options, const std::string& program,
                                      NodeBench* nodes = nullptr);

/// Throws InputError where an earlier platform is to be refreshed, for which the CPU backend has no
/// use.
void refuse_refresh(const CalibrationOptions& options);

}  // namespace athanor
