// SPDX-License-Identifier: Apache-2.0
// Tables that nvbandwidth (0.4 to 0.8) prints: "Running NAME.", a line of device numbers, and the
// row of the host.
#include "sim/benchmarks/formats.hpp"
#include "sim/benchmarks/log_lines.hpp"
#include "sim/benchmarks/nvbandwidth_tests.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

bool are_numbers(const std::vector<std::string_view>& words) {
  return !words.empty() && std::all_of(words.begin(), words.end(), [](std::string_view word) {
    return word == "N/A" || number_in(word);
  });
}

/// Follows the log from test to test.
class TextReader {
 public:
  explicit TextReader(std::string file) : file_(std::move(file)) {}

  void visit(const LogLine& line) {
    if (line.words.size() > 2 && line.words[0] == "nvbandwidth" && line.words[1] == "Version:") {
      version_ = line.words[2];
    } else if (line.words.size() == 2 && line.words[0] == "Running") {
      test_ = line.words[1].substr(0, line.words[1].find_last_not_of('.') + 1);
      has_head_ = false;
    } else if (is_host_copy(test_)) {
      visit_table(line);
    }
  }

  [[nodiscard]] const Tests& tests() const noexcept { return tests_; }
  [[nodiscard]] const std::string& version() const noexcept { return version_; }

 private:
  void visit_table(const LogLine& line) {
    if (line.text.find("ERROR") != std::string_view::npos ||
        line.text.find("Error") != std::string_view::npos) {
      ValuePath(line_path(file_, line.number))
          .reject(fmt::format("{} failed", test_), "Find the cause, and measure again.");
    }
    if (!are_numbers(line.words)) return;
    if (!has_head_) {
      has_head_ = true;
      return;
    }
    Measured& measured = tests_[test_];
    if (measured.devices > 0) return;  // a second row is no copy of the host's
    for (std::size_t i = 1; i < line.words.size(); ++i) {
      if (const auto rate = number_in(line.words[i])) {
        check_positive(ValuePath(line_path(file_, line.number)), *rate);
        measured.add(*rate * kGigabyte);
      }
    }
    if (measured.devices == 0) tests_.erase(test_);
  }

  std::string file_, test_, version_;
  bool has_head_ = false;
  Tests tests_;
};

}  // namespace

bool is_nvbandwidth_text(std::string_view text) {
  return text.find("nvbandwidth Version:") != std::string_view::npos;
}

std::vector<std::string> import_nvbandwidth_text(std::string_view text, const std::string& where,
                                                 Platform& platform) {
  TextReader reader(where);
  for (const LogLine& line : log_lines(text)) reader.visit(line);
  return merge_nvbandwidth(reader.tests(), reader.version(), ValuePath(where), platform);
}

}  // namespace athanor
