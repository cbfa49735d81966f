// SPDX-License-Identifier: Apache-2.0
// Facts of the GPUs, from NVML, the management library of the driver.
#pragma once

#include "cli/doctor/machine.hpp"

#include <string>
#include <vector>

namespace athanor::cli {

struct GpuFacts {
  std::string name;
  Bytes memory = 0;
  bool counts_energy = false;
};

struct NvmlFacts {
  bool is_loaded = false;  ///< whether the library is there
  int error = 0;           ///< code of its start; 0: it runs
  std::string driver;
  int cuda = 0;  ///< newest CUDA that the driver runs, such as 13000
  std::vector<GpuFacts> gpus;
  int pairs_without_access = 0;  ///< pairs of GPUs that cannot read each other's memory

  [[nodiscard]] bool works() const noexcept { return is_loaded && error == 0; }
};

/// Asks NVML. Without the library or a driver behind it the facts say so.
[[nodiscard]] NvmlFacts ask_nvml(const Machine& machine);

}  // namespace athanor::cli
