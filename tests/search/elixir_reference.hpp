// SPDX-License-Identifier: Apache-2.0
// A second implementation of Elixir's search, from its description. It is slow and shares no code
// with the first.
#pragma once

#include "sim/policy/elixir/elixir_search.hpp"

#include <optional>

namespace athanor::test {

[[nodiscard]] std::optional<elixir::SearchResult> elixir_reference(
    const elixir::SearchInput& input);

}  // namespace athanor::test
