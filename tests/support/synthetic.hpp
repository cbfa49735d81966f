// SPDX-License-Identifier: Apache-2.0
// A synthetic machine and synthetic profiles: formulae of a plausible size instead of measurements.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace athanor::test {

/// Returns a machine of `num_devices` (a power of two) devices of the CPU backend with 256 MiB
/// each. Their copies share one host memory with CPU Adam. Collectives cover every power of two up
/// to `num_devices`.
[[nodiscard]] Platform synthetic_platform(int num_devices);

/// Returns a profile whose times are in proportion to parameters and tokens, and whose activations
/// are in proportion to tokens and width.
[[nodiscard]] Profile synthetic_profile(const Architecture& architecture,
                                        std::int64_t sequence_length,
                                        const std::vector<std::int64_t>& micro_batches);

/// Gives the machine's devices a random power limit, under which copies and collectives may slow
/// kernels down. Gives the phases of `profile` power and unthrottled times.
void limit_power(std::mt19937& random, Platform& platform, Profile& profile);

}  // namespace athanor::test
