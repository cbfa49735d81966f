// SPDX-License-Identifier: Apache-2.0
// Takes a page of athanor report apart.
#pragma once

#include "sim/base/text_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include <string>

namespace athanor::test {

/// Removes and returns what stands between `start` and the next `end`.
inline std::string take(std::string& text, const std::string& start, const std::string& end) {
  const std::size_t from = text.find(start);
  REQUIRE(from != std::string::npos);
  const std::size_t to = text.find(end, from + start.size());
  REQUIRE(to != std::string::npos);
  std::string taken = text.substr(from + start.size(), to - from - start.size());
  text.erase(from, to + end.size() - from);
  return taken;
}

/// Page whose data and chart library were taken out of the rest.
struct PageParts {
  std::string rest, library;
  nlohmann::json data;
};

inline PageParts page_parts(const std::string& path) {
  PageParts parts;
  parts.rest = read_text_file(path);
  parts.data = nlohmann::json::parse(
      take(parts.rest, R"(<script type="application/json" id="data">)", "</script>"));
  parts.library = take(parts.rest, "<script>", "</script>");
  return parts;
}

}  // namespace athanor::test
