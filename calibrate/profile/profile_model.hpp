// SPDX-License-Identifier: Apache-2.0
// Measures a model's units on this machine, with the code that training runs.
#pragma once

#include "calibrate/bench/samples.hpp"
#include "calibrate/kernels/kernel_trace.hpp"
#include "sim/base/progress.hpp"
#include "sim/base/quantities.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/profile.hpp"

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace athanor {

struct Model;
class UnitMeter;

struct ProfileOptions {
  std::int64_t sequence_length = 1;         ///< tokens per sample; 1 where samples are no sequences
  std::vector<std::int64_t> micro_batches;  ///< different numbers of samples
  int compute_threads = 1;                  ///< threads of one rank's compute lane
  /// Numbers of ranks between which tokens of experts travel, to measure that pattern too. Needs a
  /// mixture with split blocks.
  std::vector<int> expert_ranks = {};  // NOLINT(readability-redundant-member-init)
  /// Rows of an exchange that there is room for, as a multiple of those of balanced routing.
  double expert_capacity = 2;
  /// Numbers of ranks among which tensors are split, to measure that pattern too. Needs a model of
  /// llama's kind with split blocks.
  std::vector<int> tensor_ranks = {};  // NOLINT(readability-redundant-member-init)
  /// Measure backward also with the fastest kernels, where the device has others than deterministic
  /// ones.
  bool both_kernels = true;
  StoppingRule rule{.min_repetitions = 5,
                    .max_repetitions = 100,
                    .min_seconds = 0.05,
                    .max_seconds = 0.5,
                    .relative_error = 0.01};
  std::string command;            ///< command line, for the provenance
  OnProgress progress = nullptr;  ///< called before each unit class at each micro-batch size
  std::function<void(const std::string&)> remark;  ///< called with a line about kernels
  /// Called with the traces, one for each unit class and micro-batch size.
  std::function<void(std::vector<KernelTrace>)> traced;
};

/// Device that units are measured on, and its name in files.
struct ProfileDevice {
  UnitMeter& meter;
  std::string name;                             ///< as in the platform file
  std::map<std::string, std::string> versions;  ///< versions of its libraries, for the provenance
  KernelTracer* tracer = nullptr;               ///< null: the profile has no kernels
  Seconds launch_seconds = 0;                   ///< see Profile::launch_seconds; 0: not measured
  double matmul_flops_per_second = 0;           ///< see Profile; 0: not measured
};

/// Profiles each unit class of `model` at each micro-batch size: random weights, and activations
/// that come from the units before. The units' parameters hold their former values afterwards.
/// Kernels are traced after everything has been timed, because a tracer may cost time even when it
/// rests. If a tracer fails the profile has no kernels, and its notes say why. Throws InputError
/// when an option is out of range. What a unit throws passes through.
[[nodiscard]] Profile profile_model(const Model& model, const ProfileOptions& options,
                                    const ProfileDevice& device);
/// Profiles on the CPU backend.
[[nodiscard]] Profile profile_model(const Model& model, const ProfileOptions& options);

/// Profiles a built-in language model of this shape. One unit of each class is in memory at a time,
/// so the model may be of any size.
[[nodiscard]] Profile profile_language_model(const Architecture& architecture, DataType dtype,
                                             const ProfileOptions& options,
                                             const ProfileDevice& device);
[[nodiscard]] Profile profile_language_model(const Architecture& architecture, DataType dtype,
                                             const ProfileOptions& options);

}  // namespace athanor
