// SPDX-License-Identifier: Apache-2.0
// Collectives over a mesh of connections.
#pragma once

#include "executor/backend/host_collectives.hpp"
#include "executor/ranks/mesh.hpp"

#include <memory>

namespace athanor {

/// Makes collectives over all ranks of the mesh. Every part goes straight to its rank.
[[nodiscard]] std::unique_ptr<HostCollectives> make_mesh_collectives(
    std::shared_ptr<const Mesh> mesh);

}  // namespace athanor
