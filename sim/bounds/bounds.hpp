// SPDX-License-Identifier: Apache-2.0
// Lower bounds on a program's steady-state step time. README.md and theorems.md state them.
#pragma once

#include "sim/bounds/bound_terms.hpp"
#include "sim/bounds/lp_dual_bounds.hpp"
#include "sim/bounds/work_kinds.hpp"
#include "sim/cost/power_draw.hpp"
#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <array>
#include <cstddef>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <vector>

namespace athanor {

/// Everything that bounds need to know of a platform with a number of ranks and of CPU threads.
struct BoundTables {
  /// Factor on the solo times of each kind of work, with the other lanes that slow it down least.
  WorkValues least_slowdown{};
  /// The measured part of least_slowdown: 1 where no contention was measured.
  std::array<double, kNumLanes> least_measured_slowdown{};
  /// Bounds from measured contention and power; without either, from max-min sharing.
  std::vector<DualBound> dual_bounds;
  std::size_t num_plain_bounds = 0;  ///< DualBound::is_plain; they come first
  bool dual_bounds_are_max_min = false;
  /// Weights of the dual bounds, by kind of work and bound, so that idle lanes are skipped.
  std::array<std::vector<double>, kNumWorkKinds> weights;
  std::array<std::vector<double>, kNumWorkKinds> idle_weights;  ///< likewise
  std::vector<SharedResource> shared;                           ///< capacity: one rank's part
  BoundTerms terms;  ///< terms of the bounds that use these tables
};
/// Makes the tables of `world_size` ranks with `adam_threads` for CPU Adam on each. 0: for parts of
/// a step in which the CPU does nothing. Unless `uses_files`, bounds that are not plain say nothing
/// about reads and writes of files.
[[nodiscard]] BoundTables bound_tables(const Platform& platform, int world_size, int adam_threads,
                                       BoundTerms terms = {}, bool uses_files = true);

/// Tables of one platform by number of CPU threads, each made once.
class BoundTableCache {
 public:
  BoundTableCache(const Platform& platform, int world_size, BoundTerms terms = {},
                  bool uses_files = true)
      : platform_(platform), world_size_(world_size), terms_(terms), uses_files_(uses_files) {}
  [[nodiscard]] const BoundTables& at(int adam_threads);
  /// Returns the weight of one second of `kernel` by each of the tables' dual bounds.
  [[nodiscard]] const std::vector<double>& kernel_weights(const PowerDraw& kernel,
                                                          int adam_threads);

 private:
  const Platform& platform_;
  int world_size_;
  BoundTerms terms_;
  bool uses_files_;
  std::map<int, BoundTables> by_threads_;
  /// By threads, and the kernel's watts and exponent.
  std::map<std::tuple<int, double, double>, std::vector<double>> kernel_weights_;
};

/// Least time that `kernels` contribute to a step, under each of BoundTables::dual_bounds.
[[nodiscard]] std::vector<Seconds> dual_kernel_seconds(std::span<const PowerDraw> kernels,
                                                       const BoundTables& tables);

/// Time of the busiest lane or shared resource when each rank has `busy` to do.
[[nodiscard]] Seconds busiest_seconds(const WorkValues& busy, const BoundTables& tables);
/// Lower bound on doing `busy` on all lanes plus `times` repetitions of the kernels, which
/// contribute `kernels` under the first of the dual bounds, or under all. Bounds of consecutive
/// parts of a step may be added if they use the same multiplier.
[[nodiscard]] LagrangianBound dual_bound_seconds(const WorkValues& busy,
                                                 std::span<const Seconds> kernels, double times,
                                                 const BoundTables& tables);

/// Largest of: the busiest lane or shared resource, the dual bound, the host's issue times, and the
/// longest cycle through one step. Never above the simulated period.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform);
/// Returns that bound from `tables` made before, for the program's ranks and threads.
[[nodiscard]] Seconds lower_bound_seconds(const Program& program, const Platform& platform,
                                          const BoundTables& tables);

/// That bound of one program for several numbers of CPU threads. Makes once what does not depend on
/// them. The references outlive this object.
class ProgramBound {
 public:
  ProgramBound(const Program& program, const Platform& platform);
  ~ProgramBound();
  ProgramBound(const ProgramBound&) = delete;
  ProgramBound& operator=(const ProgramBound&) = delete;

  /// Returns the bound from tables for the program's ranks and threads.
  [[nodiscard]] Seconds seconds(const BoundTables& tables) const;
  /// Returns a bound that holds with the program's own threads and with each of `adam_threads`.
  [[nodiscard]] Seconds least_seconds(std::span<const int> adam_threads, BoundTableCache& tables);

 private:
  struct Parts;
  /// Bound without waits: all lanes work at once. Kernels contribute `kernels`.
  [[nodiscard]] Seconds overlapped_seconds(const BoundTables& tables,
                                           std::span<const Seconds> kernels) const;
  [[nodiscard]] std::vector<Seconds> kernel_seconds(BoundTableCache& tables,
                                                    int adam_threads) const;
  /// Times of all operations beside the lanes that slow them down least.
  [[nodiscard]] std::vector<Seconds> slowed_seconds(const BoundTables& tables) const;
  [[nodiscard]] Seconds cycle_seconds(const std::vector<Seconds>& seconds, double compute_slowdown,
                                      BoundTerms terms) const;

  const Program& program_;
  const Platform& platform_;
  std::unique_ptr<Parts> parts_;
};

}  // namespace athanor
