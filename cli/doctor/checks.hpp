// SPDX-License-Identifier: Apache-2.0
// Checks of a machine, one function for each thing that it has or lacks.
#pragma once

#include "cli/doctor/finding.hpp"
#include "cli/doctor/machine.hpp"
#include "cli/doctor/nvml_facts.hpp"

#include <string>

namespace athanor::cli {

/// Packages of the Python of `tokenize` and `trace`; versions are empty where a package is missing.
struct PythonFacts {
  std::string interpreter;  ///< empty: none was found
  std::string version, torch, transformers, safetensors;
  std::vector<std::string> library_folders;  ///< those of the CUDA packages beside torch
};

/// Asks the Python that `athanor tokenize` would start.
[[nodiscard]] PythonFacts ask_python(const Machine& machine);

/// One of athanor's programs, and what is lost without it.
struct Program {
  std::string name, file;
  Verdict without;
  std::string cost, way_out;
};

[[nodiscard]] Finding check_program(const Machine& machine, const Program& program);
[[nodiscard]] Finding check_python(const PythonFacts& python);
[[nodiscard]] Finding check_mpi(const Machine& machine);

[[nodiscard]] Finding check_driver(const Machine& machine, const NvmlFacts& nvml);
[[nodiscard]] Finding check_cuda_plugin(const Machine& machine, const NvmlFacts& nvml);
[[nodiscard]] Finding check_energy_counter(const NvmlFacts& nvml);
[[nodiscard]] Finding check_cupti(const Machine& machine, const NvmlFacts& nvml,
                                  const PythonFacts& python);
[[nodiscard]] Finding check_peers(const Machine& machine, const NvmlFacts& nvml);

[[nodiscard]] Finding check_memory(const Machine& machine);
[[nodiscard]] Finding check_cores(const Machine& machine);
[[nodiscard]] Finding check_locked_memory(const Machine& machine);
[[nodiscard]] Finding check_numa(const Machine& machine);
[[nodiscard]] Finding check_shared_memory(const Machine& machine);
[[nodiscard]] Finding check_folder(const Machine& machine);

}  // namespace athanor::cli
