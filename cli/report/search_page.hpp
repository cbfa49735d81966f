// SPDX-License-Identifier: Apache-2.0
// The data of the pages of a search and of several platforms, from what tune printed.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace athanor::cli {

/// Returns the page of a document that `tune --json` or `simulate --json` printed for one platform:
/// "result", which is that document, and "plan_summary". Throws InputError (file:key.path) for a
/// value that is missing or of another type.
[[nodiscard]] nlohmann::ordered_json search_page(const nlohmann::json& document,
                                                 const std::string& file);

/// Returns every plan that was tried, from the lines of `tune --all`: "plans", the first of each
/// outcome in order of rank, and "counts" of all by outcome. Throws InputError (file:line).
[[nodiscard]] nlohmann::ordered_json candidates_json(std::string_view text,
                                                     const std::string& file);

/// Returns the page of what `tune --json` printed for several platforms: "platforms".
[[nodiscard]] nlohmann::ordered_json platforms_page(const nlohmann::json& document,
                                                    const std::string& file);

}  // namespace athanor::cli
