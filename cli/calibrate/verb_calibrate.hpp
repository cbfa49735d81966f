// SPDX-License-Identifier: Apache-2.0
// athanor calibrate: measures a machine, or all machines of a job.
#pragma once

#include "calibrate/machine/calibrate_machine.hpp"
#include "cli/common/command_line.hpp"
#include "executor/backend/host_collectives.hpp"

#include <memory>
#include <string>
#include <vector>

namespace athanor::cli {

/// The ranks of a job that measure together. They outlive a failure, because an orderly end of MPI
/// would wait for ranks that never come.
using Ranks = std::unique_ptr<HostCollectives>;

struct CalibrateArguments {
  CalibrationOptions options;
  std::string output, refresh, power_bursts, nvme;
  std::vector<std::string> earlier;
  bool quiet = false;
};

/// Adds the verb. Its action keeps the ranks of a job in `ranks`.
void add_calibrate(CLI::App& app, CalibrateArguments& arguments, Ranks& ranks, Action& action);

/// Adds the hidden verb that `calibrate` runs under mpirun.
void add_worker(CLI::App& app, CalibrateArguments& arguments, Action& action);

}  // namespace athanor::cli
