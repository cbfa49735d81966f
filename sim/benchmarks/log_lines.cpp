// SPDX-License-Identifier: Apache-2.0
#include "sim/benchmarks/log_lines.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <system_error>

namespace athanor {
namespace {

constexpr std::string_view kSpaces = " \t\r\v\f";

std::string_view trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(kSpaces);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

/// Removes "3: ", as srun -l prints; the number may have spaces before it.
std::string_view without_srun(std::string_view line) {
  const std::string_view text = trimmed(line);
  const auto colon = text.find_first_not_of("0123456789");
  const bool marked = colon != 0 && colon != std::string_view::npos && text[colon] == ':';
  return marked ? text.substr(colon + 1) : line;
}

/// Removes "[1,3]<stdout>:", as mpirun --tag-output prints.
std::string_view without_mpirun(std::string_view line) {
  for (const std::string_view mark : {"<stdout>:", "<stderr>:", "<stdout> ", "<stderr> "}) {
    const auto at = line.find(mark);
    if (line.starts_with('[') && at != std::string_view::npos) return line.substr(at + mark.size());
  }
  return line;
}

/// Removes "2026-11-25T09:48:39.123Z ", as containers' logs have.
std::string_view without_time(std::string_view line) {
  constexpr std::string_view kShape = "dddd-dd-ddTdd:dd:dd";
  if (line.size() < kShape.size()) return line;
  for (std::size_t i = 0; i < kShape.size(); ++i) {
    const bool digit = line[i] >= '0' && line[i] <= '9';
    if (kShape[i] == 'd' ? !digit : line[i] != kShape[i]) return line;
  }
  const auto end = line.find(' ');
  return end == std::string_view::npos ? line : line.substr(end);
}

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(kSpaces), text.size());
    words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(text.find_first_not_of(kSpaces, end), text.size()));
  }
  return words;
}

template <typename Number>
std::optional<Number> parse_whole(std::string_view word) {
  Number value{};
  const char* const end = word.data() + word.size();
  const auto [rest, status] = std::from_chars(word.data(), end, value);
  return status == std::errc{} && rest == end ? std::optional(value) : std::nullopt;
}

}  // namespace

std::vector<LogLine> log_lines(std::string_view text) {
  std::vector<LogLine> lines;
  while (!text.empty()) {
    const auto end = std::min(text.find('\n'), text.size());
    LogLine line{static_cast<int>(lines.size()) + 1, {}, {}};
    line.text = trimmed(without_srun(without_mpirun(without_time(text.substr(0, end)))));
    line.words = words_of(line.text);
    lines.push_back(std::move(line));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

std::optional<double> number_in(std::string_view word) {
  const std::optional value = parse_whole<double>(word);
  return value && std::isfinite(*value) ? value : std::nullopt;
}

std::optional<int> integer_in(std::string_view word) { return parse_whole<int>(word); }

std::string line_path(const std::string& file, int number) {
  return fmt::format("{}:line {}", file, number);
}

}  // namespace athanor
