// SPDX-License-Identifier: Apache-2.0
// Lines of a program's log, which launchers print with marks of their own. Internal to this folder.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

struct LogLine {
  int number = 0;                       ///< counted from 1
  std::string_view text;                ///< without the launcher's mark
  std::vector<std::string_view> words;  ///< between spaces
};

/// Splits a log into lines, without the marks of srun ("3: "), mpirun ("[1,3]<stdout>: ") and time
/// stamps. The views are of `text`.
[[nodiscard]] std::vector<LogLine> log_lines(std::string_view text);

/// Parses a whole word as a number; nothing for any other word, such as "N/A".
[[nodiscard]] std::optional<double> number_in(std::string_view word);

/// Parses a whole word as an integer of 32 bits; nothing for any other word, such as "1e9".
[[nodiscard]] std::optional<int> integer_in(std::string_view word);

/// Path of a line in messages: "all_reduce.log:line 12".
[[nodiscard]] std::string line_path(const std::string& file, int number);

}  // namespace athanor
