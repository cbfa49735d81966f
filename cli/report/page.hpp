// SPDX-License-Identifier: Apache-2.0
// One HTML page that needs nothing else: data, style, scripts and the chart library are inside.
#pragma once

#include <nlohmann/json.hpp>

#include <string>
#include <string_view>

namespace athanor::cli {

/// Whether the chart library was there when this program was built. Pages without it have tables.
[[nodiscard]] bool has_charts() noexcept;

/// Replaces what HTML gives a meaning: & < > " '.
[[nodiscard]] std::string escape_html(std::string_view text);

/// Returns JSON that may stand in a script element, whatever its strings hold. Bytes that are no
/// UTF-8 are replaced.
[[nodiscard]] std::string script_safe_json(const nlohmann::ordered_json& json);

/// Returns the page. `data` has the page's "kind" (run, plan, search or platforms), which says what
/// web/pages.js makes of the rest. The page loads nothing, and its policy forbids it to.
[[nodiscard]] std::string html_page(const std::string& title, const nlohmann::ordered_json& data);

}  // namespace athanor::cli
