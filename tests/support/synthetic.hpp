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

/// Returns a small mixture whose blocks are two units each: two blocks, two heads, two experts a
/// token, 16 positions.
[[nodiscard]] Architecture split_mixture(std::int64_t hidden, std::int64_t experts,
                                         std::int64_t inner);

/// Returns a synthetic profile of split_mixture(64, 16, 64) that also has costs of experts whose
/// tokens travel between so many ranks: three stages of a third of each phase.
[[nodiscard]] Profile mixture_profile(int ranks);

/// Returns the same with costs of attention whose tensors are split, too.
[[nodiscard]] Profile mixed_patterns_profile(int ranks);

/// Returns a small llama whose blocks are two units each: two blocks, 8 heads, 4 of keys and
/// values, 16 positions. Its tensors divide among 2 or 4 ranks.
[[nodiscard]] Architecture split_llama();

/// Returns a synthetic profile of split_llama() that also has costs of tensors that are split among
/// so many ranks.
[[nodiscard]] Profile split_tensors_profile(int ranks);

}  // namespace athanor::test
