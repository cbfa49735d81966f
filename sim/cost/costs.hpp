// SPDX-License-Identifier: Apache-2.0
// The cost of one operation that runs alone on a platform. Engine, bounds and search share it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <vector>

namespace athanor {

/// Returns the seconds of `op` alone on `platform`, as a mean over steps where one of several runs
/// it (Program::steps_for_each). Only sizes and the profile's rates of `program` matter. Throws
/// InputError as below.
[[nodiscard]] Seconds solo_seconds(const Operation& op, const Program& program,
                                   const Platform& platform);

/// Returns the seconds of every operation of `program` alone on `platform`, by operation index.
/// Throws InputError that names the curve and the ways out if the platform lacks one.
[[nodiscard]] std::vector<Seconds> solo_seconds(const Program& program, const Platform& platform);

/// Returns the seconds of a unit's phase under sustained load: the profile's, scaled by the matrix
/// rate of the profile's device over that of `platform`, if both rates are known. Two H200s differ
/// by up to 2 %.
[[nodiscard]] Seconds sustained_seconds(const Operation& op, const Program& program,
                                        const Platform& platform);

/// Returns the seconds of `op` in which a kernel of its own adds gradients to sums on the device,
/// or writes the first of them, alone: part of its solo_seconds(), or all. Such a kernel fills the
/// device, unlike those of collectives. 0 for operations that do not run beside the compute lane.
[[nodiscard]] Seconds filling_seconds(const Operation& op, const Program& program,
                                      const Platform& platform);

/// Returns how many times as long a launch takes on the host of `platform` as on that of
/// `program`'s profile, by the compute lane's issue time of the two; 1 if either is not known.
[[nodiscard]] double launch_slowdown(const Program& program, const Platform& platform);

/// Returns the host's seconds to issue every operation, by operation index. One thread of the rank
/// launches them all in program order, and none starts before it was issued. 0 if running is
/// issuing. Phases of units take what the profile says, times launch_slowdown().
[[nodiscard]] std::vector<Seconds> issue_seconds(const Program& program, const Platform& platform);

/// Returns what CPU Adam with `threads` asks of memory, as a share of what it asked in contention
/// samples of `num_ranks` ranks. `athanor calibrate` gives each rank its part of the node's cores
/// there. The share follows from the speeds of the two alone, because both move equal bytes an
/// element; at most 1.
[[nodiscard]] double cpu_adam_share(const Platform& platform, int num_ranks, int threads);

/// Returns what CPU Adam with `threads` takes of shared resources, relative to Platform::shared,
/// from the speeds of the two alone.
[[nodiscard]] double cpu_adam_use(const Platform& platform, int threads);
/// Returns the largest cpu_adam_use() over all measured numbers of threads; at least 1.
[[nodiscard]] double most_cpu_adam_use(const Platform& platform);
/// Returns Platform::shared with the use of a CPU Adam that has `adam_threads`.
[[nodiscard]] std::vector<SharedResource> shared_with(const Platform& platform, int adam_threads);

}  // namespace athanor
