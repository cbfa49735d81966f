// SPDX-License-Identifier: Apache-2.0
// The known name that a misspelt one was probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Returns the name with the fewest edits (insert, remove, replace, swap of neighbours) to `given`;
/// empty where none is near. A dash and an underscore are the same.
[[nodiscard]] std::string nearest_name(std::string_view given,
                                       const std::vector<std::string>& known);

}  // namespace athanor
