// SPDX-License-Identifier: Apache-2.0
// The known name that a misspelt one was probably meant to be.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// Returns the name with the fewest edits (insert, remove, replace, swap of neighbours) to `given`;
/// where none is near, one that begins with it or with which it begins; else nothing. A dash and an
/// underscore are the same.
[[nodiscard]] std::string nearest_name(std::string_view given,
                                       const std::vector<std::string>& known);

/// Returns a hint for a name that is not known: the nearest of those that are, or `otherwise`.
[[nodiscard]] std::string nearest_hint(std::string_view given,
                                       const std::vector<std::string>& known,
                                       const std::string& otherwise);

}  // namespace athanor
