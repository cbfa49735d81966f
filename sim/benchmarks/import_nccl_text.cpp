// SPDX-License-Identifier: Apache-2.0
// Tables that nccl-tests prints (2.0 to 2.19): a head of comments, then a line per size with the
// figures out of place and in place.
#include "sim/benchmarks/formats.hpp"
#include "sim/benchmarks/log_lines.hpp"
#include "sim/benchmarks/nccl_results.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace athanor {
namespace {

/// One table of a log.
struct Table {
  int first_line = 0;
  std::set<int> ranks;
  const RingCollective* named = nullptr;  ///< collective that the log names before the table
  bool failed = false;                    ///< the line of the verdict says so
  std::vector<LogLine> rows;
};

/// Columns of a row: size, count, type, redop, root, then time, algbw, busbw and #wrong twice.
/// Programs before 2.11 have no root.
struct Columns {
  std::size_t out_of_place = 0, in_place = 0;
};

bool is_row(const LogLine& line) {
  return line.words.size() >= 7 && number_in(line.words[0]) && number_in(line.words[1]) &&
         !number_in(line.words[2]);
}

Columns columns_of(const LogLine& row) {
  constexpr std::size_t kFigures = 4;
  // From the end, because the operation is empty for some collectives.
  const std::size_t size = row.words.size();
  const bool both = size >= 3 + 2 * kFigures;
  return {both ? size - 2 * kFigures : size - kFigures, size - kFigures};
}

/// Returns the collective that a line of the log names: the command, or the line that newer
/// programs print.
const RingCollective* named_in(const LogLine& line) {
  for (const std::string_view word : line.words) {
    if (const RingCollective* found = collective_of_program(word)) return found;
  }
  return nullptr;
}

std::vector<Table> tables_of(std::string_view text) {
  std::vector<Table> tables;
  const RingCollective* named = nullptr;
  for (const LogLine& line : log_lines(text)) {
    if (const RingCollective* found = named_in(line)) named = found;
    if (line.text.starts_with("# nThread")) {
      tables.push_back({line.number, {}, named, false, {}});
    } else if (!tables.empty()) {
      Table& table = tables.back();
      if (table.rows.empty()) table.named = named;
      const auto rank = line.words.size() > 2 && line.words[1] == "Rank" ? integer_in(line.words[2])
                                                                         : std::nullopt;
      if (rank) table.ranks.insert(*rank);
      if (is_row(line)) table.rows.push_back(line);
      if (line.text.starts_with("# Out of bounds")) {
        table.failed = line.text.find("FAILED") != std::string_view::npos;
      }
    }
  }
  return tables;
}

/// Returns the collective of a table whose log does not name it: that of the file's name, or
/// all-reduce, which alone moves the buffer round twice.
const RingCollective* collective_of(const Table& table, const std::string& file) {
  if (table.named != nullptr) return table.named;
  const std::string name = file.substr(file.rfind('/') + 1);
  for (const RingCollective* kind : {&kAllGather, &kReduceScatter, &kAllReduce}) {
    std::string dashed = kind->key;
    for (char& c : dashed) c = c == '_' ? '-' : c;
    if (name.find(kind->key) != std::string::npos || name.find(dashed) != std::string::npos) {
      return kind;
    }
  }
  constexpr std::size_t kFewest = 3;  // on two ranks a broadcast has the same figures
  if (table.ranks.size() >= kFewest && !table.rows.empty()) {
    const LogLine& row = table.rows.back();
    const Columns columns = columns_of(row);
    const auto algorithm = number_in(row.words[columns.in_place + 1]);
    const auto bus = number_in(row.words[columns.in_place + 2]);
    const auto ranks = static_cast<double>(table.ranks.size());
    const double twice = 2 * (ranks - 1) / ranks;
    if (algorithm && bus && std::abs(*bus - twice * *algorithm) < 0.02 * *bus) return &kAllReduce;
  }
  ValuePath(line_path(file, table.first_line))
      .reject("the log does not say which collective was measured",
              "Name the file after it: all_gather.log, reduce_scatter.log or all_reduce.log.");
}

NcclTiming read_row(const LogLine& row, const std::string& file) {
  const ValuePath place(line_path(file, row.number));
  const Columns columns = columns_of(row);
  const auto figure = [&](std::size_t column, const char* name) {
    const auto value = number_in(row.words[column]);
    if (!value) {
      place.reject(fmt::format("'{}' is no {}", row.words[column], name),
                   "Use nccl-tests' own output.");
    }
    return *value;
  };
  NcclTiming timing{place, *number_in(row.words[0])};
  for (const std::size_t first : {columns.out_of_place, columns.in_place}) {
    // Old programs print the largest error in place of the count, such as 2e-07; N/A: unchecked.
    const double wrong = number_in(row.words[first + 3]).value_or(0);
    if (wrong >= 1) timing.wrong = std::max(timing.wrong, wrong);
  }
  if (timing.bytes == 0) return timing;
  timing.seconds = figure(columns.in_place, "time") * kMicrosecond;
  timing.algorithm_bandwidth = figure(columns.in_place + 1, "bandwidth");
  timing.bus_bandwidth = figure(columns.in_place + 2, "bandwidth");
  return timing;
}

}  // namespace

bool is_nccl_text(std::string_view text) {
  return text.find("# nThread") != std::string_view::npos ||
         text.find("# nccl-tests version") != std::string_view::npos;
}

std::vector<std::string> import_nccl_text(std::string_view text, const std::string& where,
                                          Platform& platform) {
  constexpr double kRounding = 0.02;  // two decimals, of the time as well
  const std::vector<Table> tables = tables_of(text);
  std::vector<std::string> taken;
  for (const Table& table : tables) {
    const ValuePath place(line_path(where, table.first_line));
    if (table.failed) {
      place.reject("nccl-tests found wrong values",
                   "Times of wrong results mean nothing: find the cause, and measure again.");
    }
    NcclResults results(place);
    results.collective = collective_of(table, where);
    results.ranks = static_cast<int>(table.ranks.size());
    results.rounding = kRounding;
    for (const LogLine& row : table.rows) results.timings.push_back(read_row(row, where));
    taken.push_back(merge_nccl(results, platform));
  }
  if (taken.empty()) {
    ValuePath(where).reject("no table of nccl-tests", "Was the log cut short?");
  }
  return taken;
}

}  // namespace athanor
