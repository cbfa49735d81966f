// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/calibrate_job.hpp"

#include "calibrate/device/cuda_calibrator.hpp"
#include "calibrate/machine/host_calibration.hpp"
#include "calibrate/machine/node_bench.hpp"
#include "sim/base/errors.hpp"

#include <fmt/format.h>

namespace athanor {

std::optional<Platform> calibrate_job(const CalibrationOptions& options, const RankInfo& rank,
                                      HostCollectives& ranks) {
  if (uses_cuda(options.backend)) {
    throw InputError("--backend", "the GPUs of several machines are not measured together",
                     "Calibrate one machine without a launcher, and import what nccl-tests measure "
                     "on several (athanor import), or use --backend cpu.");
  }
  refuse_refresh(options);
  const JobShape shape = shape_of(rank, ranks);
  if (options.ranks != 0 && options.ranks != shape.ranks_per_node) {
    throw InputError("--gpus",
                     fmt::format("{}, but a launcher has started {} ranks on each machine",
                                 options.ranks, shape.ranks_per_node),
                     "Leave --gpus out under a launcher.");
  }
  const HostMeasurementOptions measurement = host_measurement_options(options.quick);
  NodeBench nodes(ranks, shape, measurement.collectives, measurement.rule);
  if (rank.rank != 0) {
    nodes.serve();
    return std::nullopt;
  }
  CalibrationOptions resolved = options;
  resolved.ranks = shape.ranks_per_node;
  Platform platform = calibrate_host(resolved, {}, &nodes);
  nodes.end();
  platform.validate("calibration");
  return platform;
}

}  // namespace athanor
