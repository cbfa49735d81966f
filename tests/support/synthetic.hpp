// SPDX-License-Identifier: Apache-2.0
// A made-up machine and made-up profiles: formulae instead of measurements, of a plausible size.
#pragma once

#include "sim/model/platform.hpp"
#include "sim/model/profile.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace athanor::test {

/// A machine of `num_devices` (a power of two) CPU-backend devices of 256 MiB, whose copies share
/// one host memory with CPU Adam. Collectives cover every power of two up to `num_devices`.
[[nodiscard]] Platform synthetic_platform(int num_devices);

/// Time in proportion to parameters and tokens, activations in proportion to tokens and width.
[[nodiscard]] Profile synthetic_profile(const Architecture& architecture,
                                        std::int64_t sequence_length,
                                        const std::vector<std::int64_t>& micro_batches);

/// Gives the machine's devices a power limit at random, under which copies and collectives may slow
/// kernels down, and the phases of `profile` power and times at full clock.
void limit_power(std::mt19937& random, Platform& platform, Profile& profile);

}  // namespace athanor::test
