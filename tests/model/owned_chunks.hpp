// SPDX-License-Identifier: Apache-2.0
// Checks of programs whose ranks own parts of units.
#pragma once

#include "sim/model/program.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cstddef>

namespace athanor::test {

/// Checks that owned chunks are never gathered, are reduced by their owner alone, and that whatever
/// works on them works on one of `ranks` parts.
inline void check_owned_chunks(const Program& program, int ranks) {
  for (const Operation& op : program.operations) {
    if (op.chunk < 0) continue;
    const Chunk& chunk = program.layouts[static_cast<std::size_t>(op.unit)]
                             .chunks[static_cast<std::size_t>(op.chunk)];
    if (!chunk.owned) continue;
    CHECK(op.kind != OpKind::Gather);
    if (op.kind == OpKind::Reduce) CHECK(op.own);
    if (op.elements > 0) CHECK(op.elements == chunk.elements / ranks);
  }
}

}  // namespace athanor::test
