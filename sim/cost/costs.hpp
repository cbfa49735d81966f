// SPDX-License-Identifier: Apache-2.0
// What one operation costs when it runs alone on a platform. Engine, bounds and list schedule share
// it.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/program.hpp"

#include <vector>

namespace athanor {

/// Seconds of `op` alone on `platform`; of `program` only sizes and the profile's rates matter.
/// Throws InputError as below.
[[nodiscard]] Seconds solo_seconds(const Operation& op, const Program& program,
                                   const Platform& platform);

/// Seconds of every operation of `program` alone on `platform`, by operation index. Throws
/// InputError when the platform lacks a curve that the program needs (say which, and the ways out).
[[nodiscard]] std::vector<Seconds> solo_seconds(const Program& program, const Platform& platform);

/// Seconds of a unit's phase under sustained load: the profile's, as many times longer as the
/// device of `platform` takes for matrix products than the profile's own, where both rates are
/// known. Two H200s differ by up to 2 %.
[[nodiscard]] Seconds sustained_seconds(const Operation& op, const Program& program,
                                        const Platform& platform);

/// How many times longer than the host of `program`'s profile that of `platform` takes to launch:
/// by the compute lane's issue time of the two; 1 where either is not known.
[[nodiscard]] double launch_slowdown(const Program& program, const Platform& platform);

/// Host time to issue every operation, by operation index: one thread of the rank launches them all
/// in program order, and none starts before it was issued. 0 where running is issuing. What units'
/// phases take is the profile's, times launch_slowdown().
[[nodiscard]] std::vector<Seconds> issue_seconds(const Program& program, const Platform& platform);

/// What CPU Adam of `threads` asks of memory, as a share of what it asked when lanes of `num_ranks`
/// ranks were measured at once: `athanor calibrate` then gives each rank its part of the node's
/// cores. By the speeds of the two alone, which move equal bytes an element; at most 1.
[[nodiscard]] double cpu_adam_share(const Platform& platform, int num_ranks, int threads);

/// What CPU Adam of `threads` takes of shared resources, over what Platform::shared says: by the
/// speeds of the two alone.
[[nodiscard]] double cpu_adam_use(const Platform& platform, int threads);
/// The largest of any number of threads that was measured; at least 1.
[[nodiscard]] double most_cpu_adam_use(const Platform& platform);
/// Platform::shared where CPU Adam has `threads`.
[[nodiscard]] std::vector<SharedResource> shared_with(const Platform& platform, int adam_threads);

}  // namespace athanor
