// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/json_writer.hpp"
#include "sim/formats/trace.hpp"
#include "sim/formats/trace_names.hpp"
#include "sim/model/timeline.hpp"

#include <fmt/format.h>

#include <cstddef>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

namespace athanor {
namespace {

/// A run of hours on eight GPUs has some ten million.
constexpr std::int64_t kMaxTraceValues = 200'000'000;

Seconds read_seconds(const JsonReader& json, double unit) {
  const double value = json.number();
  check_number(json.path(), value, 0, kMaxSeconds / unit);
  return value * unit;
}

/// Reads athanor's own part of the file: everything but the events.
Timeline read_header(JsonReader json, const Program& program) {
  check_schema(json, "timeline", "simulate --trace");
  Timeline timeline;
  timeline.predicted = json.key("predicted").boolean();
  timeline.step_seconds = read_seconds(json.key("step_seconds"), 1);
  timeline.peak_bytes = read_tier_bytes(json.key("peak_bytes"));
  const JsonReader operations = json.key("operations");
  const std::int64_t count = operations.integer(0);
  if (static_cast<std::size_t>(count) != program.operations.size()) {
    operations.reject(
        fmt::format("{} operations, and the program has {}", count, program.operations.size()),
        "Read the trace with the plan and the profile that it was made from.");
  }
  return timeline;
}

class EventReader {
 public:
  explicit EventReader(const Program& program) : program_(program), names_(trace_names(program)) {}

  /// Interval of an event; nothing for metadata and counters, which stand for no operation.
  [[nodiscard]] std::optional<Interval> read(JsonReader& event) const {
    if (event.key("ph").string() != "X") return std::nullopt;
    constexpr double kMicrosecond = 1e-6;
    JsonReader args = event.key("args");
    Interval interval;
    interval.operation = index(args.key("operation"), program_.operations.size());
    interval.step = args.key("step").small_integer(0);
    interval.rank = index(event.key("pid"), static_cast<std::size_t>(program_.world_size));
    interval.start = read_seconds(event.key("ts"), kMicrosecond);
    interval.end = interval.start + read_seconds(event.key("dur"), kMicrosecond);
    check_name(event.key("name"), interval.operation);
    return interval;
  }

  [[nodiscard]] static bool is_issue(JsonReader& event) {
    return event.has("cat") && event.key("cat").string() == kIssueCategory;
  }

 private:
  static std::int32_t index(const JsonReader& json, std::size_t size) {
    return static_cast<std::int32_t>(json.integer(0, static_cast<std::int64_t>(size) - 1));
  }

  /// Throws InputError for another operation's name. Older traces carry Program::name alone.
  void check_name(const JsonReader& json, std::int32_t operation) const {
    const std::string given = json.string();
    const std::string expected = program_.name(operation);
    if (given == names_[static_cast<std::size_t>(operation)] || given == expected) return;
    json.reject(fmt::format("operation {} is '{}' in the program", operation, expected),
                "Read the trace with the plan and the profile that it was made from.");
  }

  const Program& program_;
  std::vector<std::string> names_;
};

/// Adds the host's launch to the operation that was read last.
void add_issue(std::vector<Interval>& intervals, const Interval& issue, const JsonReader& event) {
  const bool follows = !intervals.empty() && intervals.back().rank == issue.rank &&
                       intervals.back().step == issue.step &&
                       intervals.back().operation == issue.operation;
  if (!follows) {
    event.reject("the launch of an operation does not follow it",
                 "Write the trace again: simulate --trace, or another run.");
  }
  intervals.back().issue_start = issue.start;
  intervals.back().issue_end = issue.end;
}

}  // namespace

Timeline parse_trace(std::string_view text, const std::string& where, const Program& program) {
  const nlohmann::json document = parse_json(text, where, kMaxTraceValues);
  JsonReader reader(document, ValuePath(where));
  Timeline timeline = read_header(reader.key("athanor"), program);
  const EventReader events(program);
  std::set<std::tuple<std::int32_t, std::int32_t, std::int32_t>> seen;
  for (JsonReader& event : reader.key("traceEvents").items()) {
    const auto interval = events.read(event);
    if (!interval) continue;
    if (EventReader::is_issue(event)) {
      add_issue(timeline.intervals, *interval, event);
      continue;
    }
    if (!seen.insert({interval->rank, interval->step, interval->operation}).second) {
      event.reject("this operation of this rank and step is there twice",
                   "Write the trace again: simulate --trace, or another run.");
    }
    timeline.intervals.push_back(*interval);
  }
  return timeline;
}

Timeline read_trace(const std::string& path, const Program& program) {
  return parse_trace(read_text_file(path), path, program);
}

}  // namespace athanor
