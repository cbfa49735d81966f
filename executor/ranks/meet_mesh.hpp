// SPDX-License-Identifier: Apache-2.0
// How ranks find each other for a mesh: each says in the job's store where it listens.
#pragma once

#include "executor/ranks/mesh.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"

#include <torch/csrc/distributed/c10d/Store.hpp>

#include <chrono>
#include <cstdint>
#include <span>

namespace athanor {

/// Connects this rank with all others. It listens at its own addresses `at` until all have come,
/// and admits only who knows the token that rank 0 has put into the store. Throws Error where some
/// rank does not come in time.
[[nodiscard]] Mesh meet_mesh(const RankInfo& rank, c10d::Store& store,
                             std::span<const std::uint32_t> at,
                             std::chrono::seconds patience = std::chrono::seconds(120));

}  // namespace athanor
