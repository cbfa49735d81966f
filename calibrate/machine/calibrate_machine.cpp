// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/calibrate_machine.hpp"

#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/machine/collective_curves.hpp"
#include "calibrate/machine/cuda_machine.hpp"
#include "calibrate/machine/host_calibration.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"

#include <fmt/format.h>

namespace athanor {
namespace {

constexpr int kMaxRanks = 1024;

}  // namespace

Platform calibrate_machine(const CalibrationOptions& options, const std::string& program) {
  if (options.ranks < 0 || options.ranks > kMaxRanks) {
    throw InputError("--gpus", fmt::format("{} ranks cannot be measured", options.ranks),
                     fmt::format("Use 1 to {}.", kMaxRanks));
  }
  if (uses_cuda(options.backend)) {
    return calibrate_cuda_machine(options, *load_cuda_calibrator());
  }
  refuse_refresh(options);
  CalibrationOptions resolved = options;
  if (resolved.ranks == 0) resolved.ranks = kDefaultRanks;
  Platform platform = calibrate_host(resolved, program);
  platform.validate("calibration");
  return platform;
}

void run_collective_worker(bool quick, const std::string& path) {
  const auto ranks = make_mpi_collectives();
  const HostMeasurementOptions measurement = host_measurement_options(quick);
  const CollectiveTimes times =
      measure_collectives(*ranks, measurement.collectives, measurement.rule);
  if (ranks->rank() == 0) {
    write_file_atomically(path, to_json(times));
  }
}

}  // namespace athanor
