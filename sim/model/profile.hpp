// SPDX-License-Identifier: Apache-2.0
// Profile: one model's step on one kind of device, per unit class and micro-batch size.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/kernel_classes.hpp"
#include "sim/model/plan.hpp"
#include "sim/model/provenance.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace athanor {

/// Kernels of one name in a phase, or copies and fills of one kind.
struct KernelCost {
  std::string name;  ///< short_kernel_name, or kFewKernels
  KernelClass kind = KernelClass::Other;
  double count = 0;     ///< launches, mean of the traced repetitions
  Seconds seconds = 0;  ///< all launches together, median of the traced repetitions
  double flops = 0;     ///< FLOPs of matrix products and attention, from shapes; 0: not known
  double bytes = 0;     ///< size of the operators' tensors, in and out; 0: not known
};
/// Name that joins a class's kernels which have too little of a phase's time for their own line.
inline constexpr const char* kFewKernels = "(others)";

/// A phase that was recorded once and is issued as one CUDA graph. It takes the memory of the phase
/// that it records.
struct ReplayCost {
  Seconds seconds = 0;        ///< as PhaseCost's
  Seconds issue_seconds = 0;  ///< median host time to launch the graph
  Bytes graph_bytes = 0;  ///< device memory that the driver takes for one graph; the mean of all
};

/// One phase of a unit. `peak_bytes` is the highest device memory above the level at the phase's
/// start, as the device's allocator counts it (CPU backend: as requested; CUDA: blocks of
/// LibTorch's caching allocator, multiples of 512); inputs that were live before are not counted.
struct PhaseCost {
  Seconds seconds = 0;  ///< median device time, alone on the machine, under sustained load
  Seconds spread = 0;   ///< interquartile range of the repetitions
  Bytes peak_bytes = 0;
  /// Median host time to launch it; 0 on the CPU backend, where launching is running.
  Seconds issue_seconds = 0;
  /// Median device time between pauses in which the power limit recovers, and mean power in that
  /// time; 0 where they were not measured.
  Seconds unthrottled_seconds = 0;
  double watts = 0;
  /// Kernels by falling time; empty where none were traced. They are traced apart from `seconds`,
  /// which tracing does not change, and leave out the gaps between kernels.
  // GCC warns of aggregates that leave out a member without an initializer.
  std::vector<KernelCost> kernels = {};  // NOLINT(readability-redundant-member-init)
  /// Absent: not measured, or it cannot be recorded (CPU backend).
  std::optional<ReplayCost> replay = {};  // NOLINT(readability-redundant-member-init)
};

/// Returns the cost of `phase` as a CUDA graph. It has to have one.
[[nodiscard]] PhaseCost replayed(const PhaseCost& phase);

/// Costs of one phase that has stages, with exchanges between them (UnitPattern).
struct StagedPhase {
  std::vector<PhaseCost> stages;
  /// Device memory that the unit holds after each stage but the last, beside its input.
  std::vector<Bytes> held;
};

/// Costs of a unit class under a pattern with exchanges. Times are those of balanced routing.
struct StagedCost {
  std::string pattern;
  int world_size = 0;
  std::int64_t capacity = 0;  ///< UnitPlan::capacity
  StagedPhase forward_keep, forward_discard, recompute, backward;
  std::optional<StagedPhase> nondeterministic_backward;           ///< as UnitCost's
  Bytes output_bytes = 0, saved_bytes = 0, grad_input_bytes = 0;  ///< as UnitCost's
};

/// Costs of one unit class at one micro-batch size.
struct UnitCost {
  std::string unit_class;
  std::int64_t micro_batch = 0;
  PhaseCost forward_keep;     ///< forward that saves what backward needs
  PhaseCost forward_discard;  ///< forward without autograd; the output alone stays
  PhaseCost recompute;        ///< forward again from the saved input, before backward
  PhaseCost backward;  ///< starts with the output's gradient live; frees it and what was saved.
                       ///< Its kernels are deterministic
  /// Backward with the fastest kernels, for plans that are not deterministic; absent: not measured.
  std::optional<PhaseCost> nondeterministic_backward;
  Bytes output_bytes = 0;  ///< stays after forward_discard (0 for the unit with the loss)
  Bytes saved_bytes = 0;   ///< stays after forward_keep or recompute, the output included
  Bytes grad_input_bytes =
      0;  ///< the gradient that backward leaves for the unit before (0 for the first)
  std::vector<StagedCost> staged;  ///< under other patterns than weights travel
};

/// Phases of a unit in the order of a step.
inline constexpr std::array kUnitPhases{&UnitCost::forward_keep, &UnitCost::forward_discard,
                                        &UnitCost::recompute, &UnitCost::backward};
/// Phases in stages, in the order of kUnitPhases.
inline constexpr std::array kStagedPhases{&StagedCost::forward_keep, &StagedCost::forward_discard,
                                          &StagedCost::recompute, &StagedCost::backward};

/// Returns every cost of the phase at `index` of kUnitPhases: the whole unit's, its stages', and
/// those with the fastest kernels.
[[nodiscard]] std::vector<PhaseCost*> costs_of_phase(UnitCost& cost, std::size_t index);

/// Device memory and time of one model's step.
struct Profile {
  Architecture architecture;  ///< embedded, so that a profile is enough to simulate
  std::string device;         ///< name as in Platform::device
  DataType dtype = DataType::Float32;
  std::int64_t sequence_length = 0;
  int compute_threads = 1;            ///< host threads of one rank's compute lane (CPU backend)
  bool always_deterministic = false;  ///< the device has no other kernels (CPU backend), so that
                                      ///< costs are those of every plan
  std::vector<UnitCost> costs;
  Bytes batch_bytes_per_sample = 0;  ///< inputs and targets of one sequence on the device
  Bytes workspace_bytes = 0;         ///< device memory that libraries keep from their first call on
  Seconds launch_seconds = 0;        ///< Platform::issue of the compute lane on the host of the
                                     ///< profile; 0: not measured
  double matmul_flops_per_second = 0;  ///< rate of the profile's GPU, as Platform's; 0: not known
  Provenance provenance;

  /// Throws InputError when the pair was not profiled; the message lists what was.
  [[nodiscard]] const UnitCost& cost(const std::string& unit_class, std::int64_t micro_batch) const;
  /// Throws InputError when the unit was not profiled under the plan's pattern, number of ranks and
  /// capacity; the message lists what was.
  [[nodiscard]] const StagedCost& staged_cost(const std::string& unit_class, const Plan& plan,
                                              const UnitPlan& unit_plan) const;
  /// Returns the cost of backward with kernels of a plan's kind. Throws InputError when it was not
  /// measured; the message says how to.
  [[nodiscard]] const PhaseCost& backward(const UnitCost& cost, bool deterministic) const;
  [[nodiscard]] const StagedPhase& backward(const StagedCost& cost, bool deterministic) const;
  /// Whether backward was measured with both kinds of kernels everywhere.
  [[nodiscard]] bool measures_both_kernels() const noexcept;
  /// Whether all phases of whole units were measured as CUDA graphs, too, at this micro-batch size.
  [[nodiscard]] bool measures_graphs(std::int64_t micro_batch) const noexcept;
  /// Micro-batch sizes for which every unit class has a cost, ascending.
  [[nodiscard]] std::vector<std::int64_t> micro_batches() const;
  void validate(const std::string& where) const;
};

/// Makes a profile without costs, for lowering where only structure matters.
[[nodiscard]] Profile unmeasured_profile(const Architecture& architecture, DataType dtype,
                                         std::int64_t sequence_length, std::int64_t micro_batch);

}  // namespace athanor
