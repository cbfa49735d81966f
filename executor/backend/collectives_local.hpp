// SPDX-License-Identifier: Apache-2.0
// Collectives of a job of one process.
#pragma once

#include "executor/backend/collectives.hpp"

#include <memory>

namespace athanor {

/// Collectives of one process: nothing moves.
[[nodiscard]] std::unique_ptr<Collectives> make_local_collectives();

}  // namespace athanor
