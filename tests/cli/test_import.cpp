// SPDX-License-Identifier: Apache-2.0
// Tests which files athanor import takes, what it writes, and how it refuses.
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "tests/cli/sim_fixture.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <zlib.h>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;

std::string gzipped(const std::string& text) {
  z_stream stream{};
  REQUIRE(deflateInit2(&stream, Z_BEST_SPEED, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&stream, text.size()), '\0');
  std::string plain = text;
  stream.next_in = reinterpret_cast<Bytef*>(plain.data());
  stream.avail_in = static_cast<uInt>(plain.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  packed.resize(stream.total_out);
  deflateEnd(&stream);
  return packed;
}

/// Returns a trace of one kernel of 2 milliseconds, which record_function("work") launches.
std::string small_trace() {
  std::string padding;
  for (int i = 0; i < 2000; ++i) padding += std::to_string(7919 * i % 104729) + " ";
  return R"({"schemaVersion": 1, "padding": ")" + padding + R"(", "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "work", "pid": 1, "tid": 1, "ts": 5, "dur": 20},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 7,
     "dur": 2, "args": {"correlation": 4}},
    {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 90, "dur": 2000,
     "args": {"correlation": 4, "stream": 7}}]})";
}

struct ImportFixture : SimFixture {
  [[nodiscard]] ProgramResult import(const std::string& content,
                                     const std::vector<std::string>& more) const {
    write_file_atomically(folder.file("input"), content);
    std::vector<std::string> arguments{"import", folder.file("input")};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_program("athanor-sim", arguments);
  }
};

void check_refused(const ProgramResult& result, const std::string& says) {
  CHECK(result.exit_code == 2);
  CHECK(result.out.empty());
  CHECK_THAT(result.err, ContainsSubstring(says));
}

constexpr const char* kNvbandwidth = R"({"nvbandwidth": {"version": "v0.8", "testcases": [
  {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["30.00"]]}]}})";

}  // namespace

TEST_CASE_METHOD(ImportFixture,
                 "import prints a trace, plain or compressed, as table and as JSON") {
  for (const std::string& content : {small_trace(), gzipped(small_trace())}) {
    const ProgramResult table = import(content, {});
    CHECK(table.exit_code == 0);
    CHECK_THAT(table.out, ContainsSubstring("work") && ContainsSubstring("2.00 ms"));
    const auto json = nlohmann::json::parse(import(content, {"--json"}).out);
    CHECK(json.at("step") == nullptr);
    CHECK(json.at("rows").at(0).at("module") == "work");
    CHECK(json.at("rows").at(0).at("seconds").at("matmul").get<double>() == Catch::Approx(2e-3));
  }
}

TEST_CASE_METHOD(ImportFixture, "import writes a platform that simulates faster copies") {
  const std::string platform_file = folder.file("platform.json");
  const ProgramResult result =
      import(kNvbandwidth, {"--into", platform_file, "-o", folder.file("faster.json")});
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.out, ContainsSubstring("h2d 30.00 GB/s"));
  const Platform faster = read_platform(folder.file("faster.json"));
  CHECK(faster.h2d.at(512.0 * 1024 * 1024) == Catch::Approx(512.0 * 1024 * 1024 / 30e9));
  CHECK_THAT(faster.provenance.notes, ContainsSubstring("nvbandwidth v0.8"));
}

TEST_CASE_METHOD(ImportFixture, "import refuses what it cannot read, with the file's name") {
  const std::string packed = gzipped(small_trace());
  check_refused(import(packed.substr(0, packed.size() / 2), {}), "input");
  std::string garbage = packed;
  for (std::size_t i = 20; i < garbage.size(); ++i) garbage[i] = static_cast<char>(37 * i);
  check_refused(import(garbage, {}), "input");
  check_refused(import(std::string("\x1f\x8b") + "no gzip at all", {}), "input");
  check_refused(import("", {}), "not valid JSON");
  check_refused(import(small_trace().substr(0, 300), {}), "not valid JSON");
  check_refused(run_program("athanor-sim", {"import", folder.file("nothing")}), "nothing");
  check_refused(run_program("athanor-sim", {"import", folder.path()}), "cannot be read");
  check_refused(import(small_trace(), {"--into", folder.file("platform.json"), "-o", "x.json"}),
                "nvbandwidth");
}

TEST_CASE_METHOD(ImportFixture, "import takes several traces at once") {
  const ProgramResult result = import(small_trace(), {folder.file("input")});
  CHECK(result.exit_code == 0);
  CHECK(nlohmann::json::parse(import(small_trace(), {folder.file("input"), "--json"}).out).size() ==
        2);
}

TEST_CASE_METHOD(ImportFixture, "a trace may be not quite JSON") {
  const std::string head = R"({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "work", "pid": 1, "tid": 1, "ts": 5, "dur": 20},
    {"ph": "X", "cat": "cuda_runtime", "name": "cudaLaunchKernel", "pid": 1, "tid": 1, "ts": 7,
     "dur": 2, "args": {"correlation": 4}},
    {"ph": "X", "cat": "kernel", "name": "sgemm", "pid": 0, "tid": 7, "ts": 90, "dur": 2000,
     "args": {"correlation": 4, "stream": 7}},
    {"ph": "X", "cat": "python_function", "pid": 1, "tid": 1, "ts": 6, "dur": 1, )";
  const std::vector<std::string> events{
      R"("name": "{"device": "cpu"}(12): run"})",
      R"x("name": "say("a", "b")", "args": {"x": "1 "}"}})x",
      R"("name": "["a"]: f", "args": {"note": "he said "no"."}})",
      R"("name": "nan", "args": {"GB/s": NaN, "a": -Infinity, "b": [inf, Infinity]}})",
      R"("name": "C:\\work\\data\train.py", "args": {"path": "C:\users\me"}})",
      "\"name\": \"caf\xe9 \x01\x1f\ttab\nline\"}",
      R"("name": "\u00e9\ud83d\ude00", "args": {"last": 1,},})"};
  for (const std::string& event : events) {
    CAPTURE(event);
    const ProgramResult result = import(head + event + "\n]}", {"--json"});
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const auto json = nlohmann::json::parse(result.out);
    CHECK(json.at("rows").at(0).at("seconds").at("matmul").get<double>() == Catch::Approx(2e-3));
  }
  check_refused(import(head + R"("name": "cut)", {}), "the text ends");
  check_refused(import(head + R"("ts": 1 "name": "b"}]})", {}), "not valid JSON");
}

TEST_CASE_METHOD(ImportFixture, "a trace without kernels is no result") {
  const std::string trace = R"({"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm",
      "pid": 1, "tid": 1, "ts": 1, "dur": 2}]})";
  check_refused(import(trace, {}), "holds no kernels");
}

TEST_CASE_METHOD(ImportFixture, "a file that inflates beyond all measure is refused") {
  // The content is never whole in this process, whose memory counts as the program's when it
  // starts.
  const auto refused = [&](const std::string& start, const std::string& repeated, int times,
                           const std::string& says) {
    const std::string path = folder.file("bomb.json.gz");
    gzFile file = gzopen(path.c_str(), "wb9");
    REQUIRE(file != nullptr);
    gzwrite(file, start.data(), static_cast<unsigned>(start.size()));
    for (int i = 0; i < times; ++i) {
      gzwrite(file, repeated.data(), static_cast<unsigned>(repeated.size()));
    }
    gzclose(file);
    const ProgramResult result = run_program("athanor-sim", {"import", path});
    check_refused(result, says);
    CHECK(result.peak_kib < 200 * 1024);
  };
  const std::string start = R"({"traceEvents": [)";
  refused(start, std::string(2000, ' ') + "1,", 100'000, "inflates to more than 200 times");
  refused(start, std::string(1 << 20, '['), 100, "levels of brackets");
  refused(R"({"a": ")", std::string(1 << 20, 'x'), 100, "a string without an end");
}

TEST_CASE_METHOD(ImportFixture, "import says which options belong together") {
  const std::string profile_file = folder.file("profile.json");
  const std::string platform_file = folder.file("platform.json");
  check_refused(import(kNvbandwidth, {"--into", platform_file}), "--output");
  check_refused(import(kNvbandwidth, {"--into", platform_file, "--base", profile_file}), "--base");
  check_refused(import(small_trace(), {"-o", folder.file("x.json")}), "--base");
  check_refused(import(small_trace(), {"--base", profile_file, "-o", folder.file("x.json")}),
                "--micro-batch");
  check_refused(import(small_trace(), {"--base", profile_file, "--micro-batch", "1"}), "--output");
  check_refused(import(small_trace(), {"--architecture", "no-such-model"}), "no-such-model");
  check_refused(import(small_trace(), {"--step", "3"}), "ProfilerStep#3");
  check_refused(import(small_trace(), {folder.file("input"), "--base", profile_file,
                                       "--micro-batch", "1", "-o", folder.file("x.json")}),
                "takes one trace, and 2 are given");
  check_refused(import(kNvbandwidth, {}), "--into");
  check_refused(import("# nccl-tests version 2.17.1\n# nThread 1 nGpus 4\n", {}),
                "holds results of nccl-tests");
  check_refused(import(small_trace(),
                       {"--base", profile_file, "--micro-batch", "1", "-o", folder.file("x.json")}),
                "no kernels for embedding forward");
  CHECK_FALSE(std::filesystem::exists(folder.file("x.json")));
}

}  // namespace athanor::test
