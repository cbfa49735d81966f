// SPDX-License-Identifier: Apache-2.0
// Trace files: written traces are read back, and broken ones are refused.
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/engine/engine.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"
#include "tests/engine/programs.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>
#include <sstream>

namespace athanor {
namespace {

using nlohmann::json;

std::string written(const test::TemporaryFolder& folder, const std::string& text) {
  const std::string path = folder.file("trace.json");
  write_file_atomically(path, text);
  return path;
}

struct Example {
  Program program;
  Timeline timeline;
  std::string text;
};

Example make_example() {
  std::mt19937 random(1);
  Example example;
  example.program = test::random_program(random, 2, 25);
  example.program.operations[0].peak_bytes = 1 << 20;
  example.timeline = Engine(test::random_platform(random), 2).simulate(example.program);
  std::ostringstream out;
  write_trace(out, example.program, example.timeline);
  example.text = out.str();
  return example;
}

/// Trace tools know communication and copies by the start of the name, device work by its stream.
void check_kind(const json& event) {
  using Catch::Matchers::StartsWith;
  const auto name = event.at("name").get<std::string>();
  const json& args = event.at("args");
  if (event.at("cat") == kIssueCategory) {
    CHECK(args.at("correlation") > 0);
    CHECK_FALSE(args.contains("stream"));
    return;
  }
  const auto lane = static_cast<Lane>(event.at("tid").get<int>());
  CHECK(args.contains("stream") == (lane != Lane::CpuAdam));
  if (lane == Lane::H2D) CHECK_THAT(name, StartsWith("Memcpy HtoD"));
  if (lane == Lane::D2H) CHECK_THAT(name, StartsWith("Memcpy DtoH"));
  if (lane == Lane::Collective) {
    CHECK_THAT(name, StartsWith("ncclDevKernel_AllGather "));
    CHECK(args.at("Collective name") == "all_gather");
    CHECK(args.at("In msg nelems").get<std::int64_t>() ==
          args.at("Out msg nelems").get<std::int64_t>() / 2);
  }
}

TEST_CASE("a trace is read back to the nanosecond") {
  const Example example = make_example();
  const test::TemporaryFolder folder;
  const Timeline read = read_trace(written(folder, example.text), example.program);
  CHECK(read.predicted == example.timeline.predicted);
  CHECK(read.step_seconds == example.timeline.step_seconds);
  CHECK(read.peak_bytes.gpu == example.timeline.peak_bytes.gpu);
  REQUIRE(read.intervals.size() == example.timeline.intervals.size());
  bool equal = true;
  for (std::size_t i = 0; i < read.intervals.size(); ++i) {
    const Interval& a = read.intervals[i];
    const Interval& b = example.timeline.intervals[i];
    equal = equal && a.operation == b.operation && a.rank == b.rank && a.step == b.step &&
            std::abs(a.start - b.start) < 1e-9 && std::abs(a.end - b.end) < 1e-9 &&
            std::abs(a.issue_start - b.issue_start) < 1e-9 &&
            std::abs(a.issue_end - b.issue_end) < 1e-9;
  }
  CHECK(equal);
}

TEST_CASE("a trace has the fields that trace viewers look for") {
  const Example example = make_example();
  CHECK_THAT(example.text, Catch::Matchers::ContainsSubstring("\"rank\": 0"));
  const json trace = json::parse(example.text);
  for (const char* key : {"schemaVersion", "displayTimeUnit", "baseTimeNanoseconds", "traceName"}) {
    CHECK(trace.contains(key));
  }
  CHECK(trace["athanor"]["schema"] == "athanor.timeline/1");
  std::size_t durations = 0, counters = 0, tracks = 0;
  for (const json& event : trace["traceEvents"]) {
    durations += event["ph"] == "X";
    counters += event["ph"] == "C";
    tracks += event["name"] == "thread_name";
    if (event["ph"] == "X") check_kind(event);
  }
  const auto is_issued = [](const Interval& i) { return i.issue_end > i.issue_start; };
  const auto issued = std::ranges::count_if(example.timeline.intervals, is_issued);
  CHECK(issued > 0);
  CHECK(durations == example.timeline.intervals.size() + static_cast<std::size_t>(issued));
  CHECK(counters > 0);
  CHECK(tracks == 2 * (kNumLanes + 1));
}

TEST_CASE("a trace of one rank holds that rank alone") {
  const Example example = make_example();
  std::ostringstream out;
  write_trace(out, example.program, example.timeline, 1);
  CHECK_THAT(out.str(), Catch::Matchers::ContainsSubstring("\"rank\": 1"));
  const json trace = json::parse(out.str());
  for (const json& event : trace["traceEvents"]) CHECK(event["pid"] == 1);
  const Timeline read = parse_trace(out.str(), "rank-1.json", example.program);
  CHECK(2 * read.intervals.size() == example.timeline.intervals.size());
}

TEST_CASE("a trace whose events carry only the operations' names is read") {
  const Example example = make_example();
  json trace = json::parse(example.text);
  for (json& event : trace["traceEvents"]) {
    if (event["ph"] != "X") continue;
    event["name"] = example.program.name(event["args"]["operation"].get<std::int32_t>());
  }
  const Timeline read = parse_trace(trace.dump(), "trace.json", example.program);
  CHECK(read.intervals.size() == example.timeline.intervals.size());
}

TEST_CASE("broken traces are refused, and the error names the place") {
  const Example example = make_example();
  const test::TemporaryFolder folder;
  const auto refused = [&](const std::string& text) {
    try {
      static_cast<void>(read_trace(written(folder, text), example.program));
      return std::string("accepted");
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  const auto changed = [&](const std::function<void(json&)>& change) {
    json trace = json::parse(example.text);
    const auto is_duration = [](const json& event) { return event["ph"] == "X"; };
    auto& events = trace["traceEvents"];
    change(*std::find_if(events.begin(), events.end(), is_duration));
    return refused(trace.dump());
  };
  using Catch::Matchers::ContainsSubstring;
  CHECK_THAT(refused(example.text.substr(0, example.text.size() / 2)), ContainsSubstring("JSON"));
  CHECK_THAT(refused("[]"), ContainsSubstring("object"));
  CHECK_THAT(refused("{}"), ContainsSubstring("athanor"));
  CHECK_THAT(changed([](json& e) { e["ts"] = -1; }), ContainsSubstring(".ts"));
  CHECK_THAT(changed([](json& e) { e["cat"] = kIssueCategory; }), ContainsSubstring("launch"));
  CHECK_THAT(changed([](json& e) { e["dur"] = "1"; }), ContainsSubstring(".dur"));
  CHECK_THAT(changed([](json& e) { e["pid"] = 2; }), ContainsSubstring(".pid"));
  CHECK_THAT(changed([](json& e) { e["name"] = "adam #7"; }), ContainsSubstring(".name"));
  CHECK_THAT(changed([](json& e) { e["args"]["operation"] = 25; }), ContainsSubstring("operation"));
  CHECK_THAT(changed([](json& e) { e["args"].erase("step"); }), ContainsSubstring("args.step"));
  json other = json::parse(example.text);
  other["athanor"]["schema"] = "athanor.timeline/2";
  CHECK_THAT(refused(other.dump()), ContainsSubstring("athanor.schema"));
  other = json::parse(example.text);
  other["athanor"]["operations"] = 3;
  CHECK_THAT(refused(other.dump()), ContainsSubstring("athanor.operations"));
  other = json::parse(example.text);
  const json events = other["traceEvents"];
  for (const json& event : events) other["traceEvents"].push_back(event);
  CHECK_THAT(refused(other.dump()), ContainsSubstring("there twice"));
  CHECK_THROWS_AS(read_trace("/nonexistent/trace.json", example.program), InputError);
}

}  // namespace
}  // namespace athanor
