// SPDX-License-Identifier: Apache-2.0
#include "sim/base/error_report.hpp"

#include "sim/base/printable.hpp"

#include <fmt/core.h>

#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace athanor {
namespace {

/// Quotes text that is printable but for its line ends. This room knows no JSON library.
std::string quoted(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : printable(text, LineEnds::Kept)) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += c == '\n' ? "\\n" : std::string(1, c);
  }
  return quoted + '"';
}

}  // namespace

bool errors_are_json() {
  const char* const form = std::getenv("ATHANOR_ERRORS");
  return form != nullptr && std::string_view(form) == "json";
}

std::string error_json(const ErrorReport& error) {
  return fmt::format(R"({{"program": {}, "message": {}, "hint": {}, "exit_code": {}}})",
                     quoted(error.program), quoted(error.message), quoted(error.hint), error.code);
}

int report_error(const ErrorReport& error) {
  if (errors_are_json()) {
    fmt::print(stderr, "{}\n", error_json(error));
  } else {
    fmt::print(stderr, "{}: error: {}\n", error.program, printable(error.message, LineEnds::Kept));
  }
  return error.code;
}

}  // namespace athanor
