// SPDX-License-Identifier: Apache-2.0
// Logs and JSON that people bring for `import`, in the shapes that their tools and launchers give
// them.
#include "sim/base/errors.hpp"
#include "sim/benchmarks/import_benchmarks.hpp"
#include "tests/model/artefact_samples.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fmt/format.h>

#include <string>

namespace athanor {
namespace {

using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

Platform sample() {
  Platform platform = test::sample_platform();
  platform.num_devices = 4;
  platform.network.reset();
  platform.shared.clear();
  platform.contention.clear();
  return platform;
}

struct Log {
  std::string command;  ///< line before the table
  double passes = 2;
  int ranks = 4;
  std::string wrong = "0", verdict = "0 OK";
  std::string operation = "     sum      -1";
};

/// Returns a table as nccl-tests 2.17 prints it.
std::string nccl_text(const Log& log) {
  std::string text = log.command +
                     "\n# nThread 1 nGpus 4 minBytes 1048576 maxBytes 4194304 step: 4(factor)\n#\n"
                     "# Using devices\n";
  for (int rank = 0; rank < log.ranks; ++rank) {
    text += fmt::format(
        "#  Rank {:2} Group  0 Pid   1234 on     node-a device  {} [0000:01:00] GPU\n", rank, rank);
  }
  text += "#       size         count      type   redop    root     time   algbw   busbw #wrong\n";
  for (const double bytes : {1048576.0, 4194304.0}) {
    const double time = 50 + bytes / 1e5;
    const double algorithm = bytes / time / 1e3;
    const std::string figures =
        fmt::format("{:9.2f} {:7.2f} {:7.2f} {:>6}", time, algorithm,
                    algorithm * log.passes * (log.ranks - 1) / log.ranks, log.wrong);
    text += fmt::format("{:12.0f} {:13.0f}     float{} {} {}\n", bytes, bytes / 4, log.operation,
                        figures, figures);
  }
  return text + "# Out of bounds values : " + log.verdict + "\n# Avg bus bandwidth    : 100.0\n#\n";
}

std::string prefixed(const std::string& text, const std::string& prefix) {
  std::string marked;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find('\n', at);
    marked += prefix + text.substr(at, end - at) + "\n";
    at = end + 1;
  }
  return marked;
}

void check_refused(const std::string& text, const std::string& says,
                   const std::string& name = "results.log") {
  Platform platform = sample();
  CAPTURE(text, says);
  CHECK_THROWS_MATCHES(import_benchmark(text, name, platform), InputError,
                       MessageMatches(ContainsSubstring(says)));
}

double all_reduce_at(const std::string& text, double bytes, const std::string& name = "x.log") {
  Platform platform = sample();
  platform.all_reduce.clear();
  REQUIRE_NOTHROW(import_benchmark(text, name, platform));
  REQUIRE(platform.all_reduce.size() == 1);
  CHECK(platform.all_reduce[0].world_size == 4);
  return platform.all_reduce[0].curve.at(bytes);
}

TEST_CASE("nccl-tests' text gives the curve, through the marks of any launcher") {
  for (const char* command :
       {"# Collective test starting: all_reduce_perf", "srun -l ./build/all_reduce_perf -b 1M -g 4",
        "+ /opt/nccl-tests/build/all_reduce_perf_mpi -b 1M", ""}) {
    const std::string text = nccl_text({.command = command});
    for (const char* prefix : {"", "0: ", "  0: ", "[1,0]<stdout>:", "[1,0]<stdout>: ",
                               "2026-11-25T15:20:01.123456Z "}) {
      CAPTURE(command, prefix);
      CHECK(all_reduce_at(prefixed(text, prefix), 4194304) == Approx(91.94e-6).epsilon(1e-3));
    }
  }
}

TEST_CASE("lines of other programs and both ends of lines are passed over") {
  std::string text = nccl_text({.command = "all_reduce_perf"});
  text.insert(text.find("#       size"),
              "NCCL version 2.28.9+cuda13.0\nnode-a:1:1 [0] NCCL INFO x\n");
  std::string with_returns;
  for (const char c : text) with_returns += c == '\n' ? std::string("\r\n") : std::string(1, c);
  CHECK(all_reduce_at(with_returns, 1048576) == Approx(60.49e-6).epsilon(1e-3));
}

TEST_CASE("only whole numbers that an int holds are ranks") {
  const std::string text = nccl_text({.command = "all_reduce_perf"});
  const std::string row = "#  Rank  0 ";
  for (const std::string number : {"5.5e102", "1.5", "99999999999", "x"}) {
    CAPTURE(number);
    std::string with = text;
    with.insert(with.find(row), "#  Rank " + number + " Group  0\n");
    CHECK(all_reduce_at(with, 1048576) == Approx(60.49e-6).epsilon(1e-3));
  }
}

TEST_CASE("a log of several collectives gives each") {
  Platform platform = sample();
  const std::string text =
      nccl_text({.command = "all_gather_perf", .passes = 1, .operation = "    none      -1"}) +
      nccl_text({.command = "reduce_scatter_perf", .passes = 1}) +
      nccl_text({.command = "all_reduce_perf", .passes = 2});
  const auto taken = import_benchmark(text, "all.log", platform);
  REQUIRE(taken.size() == 3);
  CHECK_THAT(taken[0], ContainsSubstring("all_gather x 4: 2 points"));
  CHECK_THAT(taken[2], ContainsSubstring("all_reduce x 4: 2 points"));
}

TEST_CASE("the name of the file tells the collective where the log does not") {
  const std::string text = nccl_text({.command = "", .passes = 1});
  check_refused(text, "does not say which collective");
  Platform platform = sample();
  CHECK_NOTHROW(import_benchmark(text, "logs/reduce-scatter.4gpus.txt", platform));
  // The bandwidths contradict the name.
  check_refused(text, "GB/s", "all_reduce.log");
}

TEST_CASE("results that nccl-tests calls wrong are refused") {
  check_refused(nccl_text({.command = "all_reduce_perf", .wrong = "512"}), "512 wrong values");
  check_refused(nccl_text({.command = "all_reduce_perf", .verdict = "4096 FAILED"}),
                "wrong values");
  CHECK_NOTHROW(all_reduce_at(nccl_text({.command = "all_reduce_perf", .wrong = "N/A"}), 1));
  CHECK_NOTHROW(all_reduce_at(nccl_text({.command = "all_reduce_perf", .wrong = "2e-07"}), 1));
}

TEST_CASE("a log without a table, or cut within its head, is refused") {
  const std::string text = nccl_text({.command = "all_reduce_perf"});
  check_refused(text.substr(0, text.find("#       size")), "no sizes");
  check_refused("# nccl-tests version 2.17.1\n", "no table");
  check_refused("hello\n", "is no result of");
  check_refused("", "is no result of");
  check_refused(nccl_text({.command = "all_reduce_perf", .ranks = 8}), "8 ranks");
  check_refused(nccl_text({.command = "all_reduce_perf", .ranks = 1}), "1 ranks");
}

const std::string kNvbandwidth = R"(nvbandwidth Version: v0.8
Built from Git version: v0.8

CUDA Runtime Version: 13000
Device 0: GPU model (00000000:06:00)
Device 1: GPU model (00000000:07:00)

Running host_to_device_memcpy_ce.
memcpy CE CPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0     55.64     50.00

SUM host_to_device_memcpy_ce 105.64

Running device_to_host_memcpy_ce.
memcpy CE CPU(row) <- GPU(column) bandwidth (GB/s)
           0         1
 0     N/A       40.00

SUM device_to_host_memcpy_ce 40.00

Running device_to_device_memcpy_read_ce.
memcpy CE GPU(row) -> GPU(column) bandwidth (GB/s)
           0         1
 0       N/A    276.07
 1    276.36       N/A
)";

TEST_CASE("nvbandwidth's text gives the rates of copies") {
  Platform platform = sample();
  const auto taken = import_benchmark(prefixed(kNvbandwidth, "0: "), "copies.log", platform);
  REQUIRE(taken.size() == 2);
  const double bytes = 512.0 * (1 << 20);
  CHECK(platform.h2d.at(bytes) == Approx(bytes / 50e9));
  CHECK(platform.d2h.at(bytes) == Approx(bytes / 40e9));
  std::string failed = kNvbandwidth;
  failed.replace(failed.find(" 0     55.64"), 12, "[CUDA_ERROR_UNKNOWN] ERROR in line 3");
  check_refused(failed, "host_to_device_memcpy_ce failed");
}

TEST_CASE("nvbandwidth's JSON may have cells without a value, and its own error") {
  const auto file = [](const std::string& cells, const std::string& status) {
    return R"({"nvbandwidth": {"testcases": [{"name": "host_to_device_memcpy_ce", "status": ")" +
           status + R"(", "bandwidth_matrix": [[)" + cells + "]]}]}}";
  };
  Platform platform = sample();
  CHECK_NOTHROW(import_benchmark(file(R"("N/A", "30.0")", "Passed"), "a.json", platform));
  check_refused(file(R"("N/A")", "Passed"), "no devices");
  check_refused(file(R"("30.0")", "Error"), "ended as 'Error'");
  check_refused(R"({"nvbandwidth": {"error": "CUDA driver is too old"}})",
                "CUDA driver is too old");
}

std::string fio(const std::string& job) {
  return R"({"fio version": "fio-3.33", "global options": {"direct": "1"}, "jobs": [)" + job + "]}";
}

TEST_CASE("fio gives the rates of files") {
  Platform platform = sample();
  const std::string idle = R"("write": {"io_bytes": 0, "bw_bytes": 0})";
  const std::string job =
      R"({"jobname": "r", "error": 0, "read": {"io_bytes": 1000, "bw_bytes": 3000000000}, )" +
      idle + "}";
  const double bytes = 512.0 * (1 << 20);
  import_benchmark(fio(job + "," + job), "fio.json", platform);
  CHECK(platform.file_read.at(bytes) == Approx(bytes / 6e9));
  CHECK_FALSE(platform.file_system);  // fio may have run on another
  check_refused(R"({"fio version": "fio-3.33", "jobs": [)" + job + "]}", "page cache");
  std::string failed = job;
  failed.replace(failed.find("\"error\": 0"), 10, "\"error\": 5");
  check_refused(fio(failed), "error 5");
  check_refused(fio(R"({"read": {"io_bytes": 0}, "write": {"io_bytes": 0}})"), "no job");
}

TEST_CASE("STREAM gives the host's memory its capacity") {
  const std::string text =
      "STREAM version $Revision: 5.10 $\nFunction    Best Rate MB/s  Avg time\n"
      "Triad:         150000.5     0.021\nSolution Validates: avg error less than 1e-13\n";
  Platform platform = sample();
  platform.shared.push_back({"host memory", SharedResource::Scope::Node, 1e9, {{Lane::H2D, 5e8}}});
  import_benchmark(text, "stream.log", platform);
  CHECK(platform.shared.back().capacity == Approx(150000.5e6));
  check_refused(text, "no shared resource");
  check_refused(text.substr(0, text.find("Solution")), "validates");
  check_refused(text.substr(0, text.find("Solution")) + "Failed Validation on array a[]\n",
                "wrong values");
}

}  // namespace
}  // namespace athanor
