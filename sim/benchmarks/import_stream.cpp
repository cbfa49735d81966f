// SPDX-License-Identifier: Apache-2.0
// The table that STREAM (5.10) prints: best rates of its four loops in MB/s, then its check.
#include "sim/benchmarks/formats.hpp"
#include "sim/benchmarks/log_lines.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace athanor {
namespace {

constexpr const char* kMemory = "host memory";
constexpr double kMegabyte = 1e6;

/// Returns the rate of Triad, the loop that is nearest to AdamW: it reads two arrays and writes
/// one.
double triad_rate(std::string_view text, const std::string& where) {
  double rate = 0;
  bool is_right = false;
  for (const LogLine& line : log_lines(text)) {
    if (line.words.size() > 1 && line.words[0] == "Triad:") {
      const ValuePath place(line_path(where, line.number));
      rate = number_in(line.words[1]).value_or(0) * kMegabyte;
      check_positive(place, rate);
    }
    if (line.text.starts_with("Solution Validates")) is_right = true;
    if (line.text.starts_with("Failed Validation")) {
      ValuePath(line_path(where, line.number))
          .reject("STREAM found wrong values", "Find the cause, and measure again.");
    }
  }
  if (rate <= 0) ValuePath(where).reject("has no rate of Triad", "Was the log cut short?");
  if (!is_right) {
    ValuePath(where).reject("does not say that the solution validates", "Was the log cut short?");
  }
  return rate;
}

}  // namespace

bool is_stream_text(std::string_view text) {
  return text.find("STREAM version") != std::string_view::npos;
}

std::vector<std::string> import_stream_text(std::string_view text, const std::string& where,
                                            Platform& platform) {
  const double rate = triad_rate(text, where);
  const auto memory =
      std::find_if(platform.shared.begin(), platform.shared.end(),
                   [](const SharedResource& resource) { return resource.name == kMemory; });
  if (memory == platform.shared.end()) {
    ValuePath(where).reject(
        fmt::format("platform {} has no shared resource '{}', which STREAM measures", platform.name,
                    kMemory),
        "A calibrated platform has measured its lanes under contention: nothing is missing.");
  }
  memory->capacity = rate;
  std::string taken = fmt::format("{} {:.2f} GB/s", kMemory, rate / kGigabyte);
  note_import(platform, fmt::format("STREAM Triad ({}): {}", where, taken));
  return {taken};
}

}  // namespace athanor
