// SPDX-License-Identifier: Apache-2.0
// Elixir's search a second time, as its description reads: slow, and sharing no code with the
// first.
#pragma once

#include "sim/policy/elixir/elixir_search.hpp"

#include <optional>

namespace athanor::test {

[[nodiscard]] std::optional<elixir::SearchResult> elixir_reference(
    const elixir::SearchInput& input);

}  // namespace athanor::test
