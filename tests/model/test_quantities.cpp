// SPDX-License-Identifier: Apache-2.0
#include "sim/base/durations.hpp"
#include "sim/base/error_report.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "sim/base/quantities.hpp"
#include "sim/base/text_file.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <new>
#include <string>

namespace athanor {
namespace {

TEST_CASE("sizes are read with their units") {
  CHECK(parse_bytes("4096", "--x") == 4096);
  CHECK(parse_bytes("0", "--x") == 0);
  CHECK(parse_bytes("17 B", "--x") == 17);
  CHECK(parse_bytes("40GiB", "--x") == 40 * kGiB);
  CHECK(parse_bytes(" 512 MiB ", "--x") == 512 * kMiB);
  CHECK(parse_bytes("1.5GB", "--x") == 1'500'000'000);
  CHECK(parse_bytes("0.5TiB", "--x") == 512 * kGiB);
  CHECK(parse_bytes("3kB", "--x") == 3000);
  CHECK(parse_bytes("80GB", "--x") == 80'000'000'000);
  CHECK(parse_bytes("80G", "--x") == 80 * kGiB);
  CHECK(parse_bytes("80GiB", "--x") == 80 * kGiB);
  CHECK(parse_bytes("64K", "--x") == 64 * kKiB);
  CHECK(parse_bytes("1.5M", "--x") == kMiB + kMiB / 2);
  CHECK(parse_bytes("2T", "--x") == 2048 * kGiB);
}

TEST_CASE("times are read with their units, and others are refused") {
  CHECK(parse_duration("90s", "--x") == 90);
  CHECK(parse_duration("1.5m", "--x") == 90);
  CHECK(parse_duration("2min", "--x") == 120);
  CHECK(parse_duration("3h", "--x") == 10800);
  for (const char* text :
       {"", "s", "3", "0s", "-1s", "3d", "1 s", "nan s", "1e3s", "9000h", "5%"}) {
    CAPTURE(text);
    CHECK_THROWS_AS(parse_duration(text, "--x"), InputError);
  }
}

TEST_CASE("text that is no size is refused") {
  for (const char* text : {"", " ", "GiB", "40 gigs", "40g", "40Gi", "-1", "-0.0GiB", "nan", "inf",
                           "1e3", "1.5.5GB", "99999999TiB", "0x10", "1 2"}) {
    INFO(text);
    CHECK_THROWS_AS(parse_bytes(text, "--gpu-memory"), InputError);
  }
  try {
    (void)parse_bytes("40g", "--gpu-memory");
  } catch (const InputError& error) {
    CHECK(error.where() == "--gpu-memory");
    CHECK(std::string(error.what()) ==
          "--gpu-memory: '40g' has an unknown unit. Write a size like 40GiB, 512M, 1.5GB or 4096 "
          "(bytes).");
  }
}

TEST_CASE("sizes are shown with three digits") {
  CHECK(format_bytes(0) == "0 B");
  CHECK(format_bytes(17) == "17 B");
  CHECK(format_bytes(1023) == "1023 B");
  CHECK(format_bytes(1024) == "1.00 KiB");
  CHECK(format_bytes(312 * kKiB) == "312 KiB");
  CHECK(format_bytes(kMiB - 1) == "1.00 MiB");
  CHECK(format_bytes(kGiB + kGiB / 2) == "1.50 GiB");
  CHECK(format_bytes(99'999'999'999) == "93.1 GiB");
  CHECK(format_bytes(-312 * kKiB) == "-312 KiB");
}

TEST_CASE("times are shown with three digits") {
  CHECK(format_seconds(0) == "0.00 s");
  CHECK(format_seconds(1.234) == "1.23 s");
  CHECK(format_seconds(0.0456) == "45.6 ms");
  CHECK(format_seconds(7.8e-6) == "7.80 us");
  CHECK(format_seconds(0.9999) == "1.00 s");
  CHECK(format_seconds(123.4) == "123 s");
  CHECK(format_seconds(-0.002) == "-2.00 ms");
}

TEST_CASE("the host has cores, memory and a time in ISO 8601") {
  CHECK(usable_cores() >= 1);
  CHECK(usable_memory() > kMiB);
  CHECK_FALSE(processor_name().empty());
  CHECK(processor_model().starts_with(processor_name()));
  const std::string now = utc_now();
  CHECK(now.size() == std::string_view("2026-11-25T09:48:39Z").size());
  CHECK(now[10] == 'T');
  CHECK(now.back() == 'Z');
}

TEST_CASE("an input error reads where, problem, hint") {
  CHECK(std::string(InputError("a.json:b", "is 3", "Use 4.").what()) == "a.json:b: is 3. Use 4.");
  CHECK(std::string(InputError("", "is 3", "").what()) == "is 3.");
}

TEST_CASE("an error's message ends with its hint") {
  const InputError input("a.json:b", "is 3", "Use 4.");
  const InfeasibleError memory("it needs 3 GiB of 2 GiB", "Use --gpu-memory 3GiB");
  CHECK(input.hint() == "Use 4.");
  CHECK(std::string(memory.what()) == "it needs 3 GiB of 2 GiB. Use --gpu-memory 3GiB");
  CHECK(memory.hint() == "Use --gpu-memory 3GiB");
  CHECK(Error("e").hint().empty());
}

TEST_CASE("an error for a program is one line of JSON, whatever names it holds") {
  CHECK(
      error_json({"sim", "\"a\\b\":\tis\n3. Use 4.", "Use 4.", 2}) ==
      R"({"program": "sim", "message": "\"a\\b\":\\tis\n3. Use 4.", "hint": "Use 4.", "exit_code": 2})");
}

TEST_CASE("a limit of file sizes fails a write, and ends no program") {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("athanor-limit-{}", ::getpid()))
          .string();
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{16, 16};
    (void)::setrlimit(RLIMIT_FSIZE, &limit);
    ::_exit(run_main("test", [&] {
      write_file_atomically(path, std::string(1000, 'x'));
      return 0;
    }));
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 1);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("an exception becomes the exit code") {
  const auto code_of = [](const std::function<int()>& body) { return run_main("test", body); };
  CHECK(code_of([] { return 0; }) == kExitDone);
  CHECK(code_of([] { return 4; }) == kExitOutsideTolerance);
  CHECK(code_of([]() -> int { throw Error("e"); }) == kExitFailed);
  CHECK(code_of([]() -> int { throw std::bad_alloc(); }) == kExitFailed);
  CHECK(code_of([]() -> int { throw std::logic_error("e"); }) == kExitFailed);
  CHECK(code_of([]() -> int { throw InputError("w", "p", "h"); }) == kExitBadInput);
  CHECK(code_of([]() -> int { throw InfeasibleError("e", "f"); }) == kExitInfeasible);
}

}  // namespace
}  // namespace athanor
