// SPDX-License-Identifier: Apache-2.0
#include "cli/report/page.hpp"

#include <fmt/format.h>

extern "C" {
// From assets.S.
extern const char athanor_page_style[], athanor_page_style_end[];
extern const char athanor_page_library[], athanor_page_library_end[];
extern const char athanor_page_script[], athanor_page_script_end[];
}

namespace athanor::cli {
namespace {

std::string_view page_style() { return {athanor_page_style, athanor_page_style_end}; }
std::string_view page_library() { return {athanor_page_library, athanor_page_library_end}; }
std::string_view page_script() { return {athanor_page_script, athanor_page_script_end}; }

/// Policy of the page: what is not inside it is not loaded.
constexpr std::string_view kPolicy =
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:";

constexpr std::string_view kLicences =
    "Charts are drawn by Apache ECharts (Apache License 2.0), which holds ZRender (BSD-3-Clause).";
constexpr std::string_view kNoCharts =
    "This athanor was built without Apache ECharts, so the page has tables and no charts. "
    "./dev setup gets it; then build again.";

}  // namespace

bool has_charts() noexcept { return !page_library().empty(); }

std::string escape_html(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&#39;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string script_safe_json(const nlohmann::ordered_json& json) {
  using Handler = nlohmann::ordered_json::error_handler_t;
  std::string safe;
  // Outside of strings JSON has none of these characters, so an escape is always in a string.
  for (const char c : json.dump(-1, ' ', /*ensure_ascii=*/true, Handler::replace)) {
    if (c == '<' || c == '>' || c == '&') {
      safe += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string html_page(const std::string& title, const nlohmann::ordered_json& data) {
  return fmt::format(
      R"(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{}">
<link rel="icon" href="data:,">
<title>{}</title>
<style>
{}</style>
</head>
<body>
<header><h1>{}</h1></header>
<main id="page"><noscript>This page draws its charts with a script, which is switched off here.</noscript></main>
<footer>{}</footer>
<script type="application/json" id="data">{}</script>
<script>{}</script>
<script>
{}</script>
</body>
</html>
)",
      kPolicy, escape_html(title), page_style(), escape_html(title),
      has_charts() ? kLicences : kNoCharts, script_safe_json(data), page_library(), page_script());
}

}  // namespace athanor::cli
