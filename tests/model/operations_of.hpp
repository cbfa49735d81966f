// SPDX-License-Identifier: Apache-2.0
// Operations of a program by their kind, for tests of lowering.
#pragma once

#include "sim/model/program.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace athanor::test {

/// Indices of the operations of a kind, ascending.
[[nodiscard]] inline std::vector<std::int32_t> operations_of(const Program& program, OpKind kind) {
  std::vector<std::int32_t> found;
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    if (program.operations[i].kind == kind) found.push_back(static_cast<std::int32_t>(i));
  }
  return found;
}

[[nodiscard]] inline const Operation& at(const Program& program, std::int32_t operation) {
  return program.operations[static_cast<std::size_t>(operation)];
}

}  // namespace athanor::test
