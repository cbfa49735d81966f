// SPDX-License-Identifier: Apache-2.0
// Small architectures, profiles and random valid plans for property tests.
#pragma once

#include "sim/model/plan.hpp"
#include "sim/model/profile.hpp"

#include <random>

namespace athanor::test {

/// Returns `count` units of one class, each with one parameter of 64 elements.
[[nodiscard]] Architecture equal_units(int count);

/// Returns an embedding, `num_blocks` equal blocks and a head, which borrows the embedding's matrix
/// when `tied`.
[[nodiscard]] Architecture small_architecture(int num_blocks, bool tied);
/// Returns a small architecture with two units of each block, in turn.
[[nodiscard]] Architecture with_split_blocks(Architecture architecture);

/// Returns costs that differ between phases and unit classes, so that a mix-up shows.
[[nodiscard]] Profile small_profile(const Architecture& architecture, std::int64_t micro_batch,
                                    DataType dtype = DataType::Float32);

/// Returns a plan of whole units with one placement, a simple plan to start from.
[[nodiscard]] Plan uniform_plan(const Architecture& architecture, int world_size, Sharding sharding,
                                Home parameters, Home optimizer);

/// Returns a random valid plan.
[[nodiscard]] Plan random_plan(const Architecture& architecture, std::mt19937& random);

}  // namespace athanor::test
