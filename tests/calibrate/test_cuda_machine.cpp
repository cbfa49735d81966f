// SPDX-License-Identifier: Apache-2.0
// Calibrations of fake GPUs.
#include "calibrate/device/other_work.hpp"
#include "calibrate/machine/cuda_machine.hpp"
#include "calibrate/machine/machine.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"
#include "tests/calibrate/slowing_calibrator.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace athanor {
namespace {

using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

/// Platform of the fake machine from years ago, when everything took a thousand seconds.
Platform old_platform() {
  const Curve curve{{{1, 1000, 0}}};
  Platform platform;
  platform.name = "two of them";
  platform.device = "asleep";
  platform.backend = "cuda";
  platform.num_devices = 2;
  platform.device_memory = platform.host_memory = kGiB;
  platform.host_cores = usable_cores();
  platform.matmul_flops_per_second = 1e12;
  platform.h2d = platform.d2h = platform.device_adam = platform.host_square_sum = curve;
  platform.cpu_adam = {{1, curve}};
  platform.issue = {{Lane::Compute, 1}};
  platform.contention = {{2, {{Lane::H2D, 1000}, {Lane::CpuAdam, 1000}}},
                         {1, {{Lane::Compute, 1.5}, {Lane::Collective, 2.5}}}};
  platform.provenance.date = "2020-02-02";
  platform.provenance.command = "by hand";
  return platform;
}

CalibrationOptions refresh(const Platform& before) {
  CalibrationOptions options;
  options.quick = true;
  options.folder = std::filesystem::temp_directory_path().string();
  options.command = "athanor calibrate --refresh";
  options.before = before;
  return options;
}

TEST_CASE("work of other processes on a GPU is said, and kept in the platform") {
  test::SlowingCalibrator cuda;
  CHECK(other_work(cuda, 2, 0).empty());  // NVML does not tell
  cuda.utilization_of_second = 4;
  CHECK(other_work(cuda, 2, 0).empty());
  cuda.utilization_of_second = 97;
  CHECK(other_work(cuda, 1, 0).empty());  // it is not measured
  CHECK_THAT(other_work(cuda, 2, 0), ContainsSubstring("GPU 1 for 97 % of the time"));

  CalibrationOptions options = refresh(old_platform());
  options.ranks = 2;
  std::string said;
  options.warn = [&said](const std::string& line) { said += line + "\n"; };
  const Platform now = calibrate_cuda_machine(options, cuda);
  CHECK_THAT(said, ContainsSubstring("other processes kept GPU 1"));
  CHECK_THAT(now.provenance.notes, ContainsSubstring("other processes kept GPU 1"));
}

TEST_CASE("the share of the time in which processors work is Linux's") {
  const std::string before = "cpu  100 0 50 800 40 5 5 0 7 7\ncpu0 1 1 1 1 1 1 1 1\n";
  // Ticks: 200 more, of which 60 are idle and 20 wait for a disk.
  CHECK(working_share(before, "cpu  150 10 80 860 60 10 15 15 99 99\n") == 120.0 / 200);
  CHECK(working_share(before, before) == std::nullopt);
  CHECK(working_share("", before) == std::nullopt);
  CHECK(working_share("cpu  1 2 3\n", before) == std::nullopt);
}

TEST_CASE("a refreshed platform has today's host and the earlier GPUs") {
  test::SlowingCalibrator cuda;
  Platform before = old_platform();
  before.pooled[Lane::CpuAdam].factor = 2;
  const Platform now = calibrate_cuda_machine(refresh(before), cuda);

  CHECK(now.h2d.at(kMiB) < 1);
  CHECK(now.cpu_adam.at(1).at(4096) < 1);
  CHECK(now.cpu_adam_beside.contains(1));
  CHECK(now.pooled.empty());  // this is one look
  CHECK_FALSE(now.processor.empty());
  CHECK(now.host_square_sum.at(4096) < 1);
  CHECK(now.file_read.at(kMiB) > 0);
  CHECK(now.issue.at(Lane::Compute) == test::SlowingCalibrator::kIssue);

  CHECK(now.matmul_flops_per_second == before.matmul_flops_per_second);
  CHECK(now.device_adam.at(1) == before.device_adam.at(1));
  REQUIRE(now.contention.size() == 2);
  CHECK(now.contention[0].slowdown.at(Lane::H2D) < 1000);
  CHECK(now.contention[0].slowdown.at(Lane::CpuAdam) < 1000);
  CHECK(now.contention[1].slowdown.at(Lane::Collective) == 2.5);
  CHECK(now.name == before.name);
  CHECK(now.num_devices == before.num_devices);
  CHECK(now.provenance.date > before.provenance.date);
  CHECK_THAT(now.provenance.notes, ContainsSubstring("2020-02-02 by by hand"));
  // Refreshed again, it still says when the GPUs were measured.
  CHECK(calibrate_cuda_machine(refresh(now), cuda).provenance.notes == now.provenance.notes);
}

TEST_CASE("another machine's platform is not refreshed") {
  test::SlowingCalibrator cuda;
  const auto check = [&](const Platform& other, const std::string& key) {
    CHECK_THROWS_MATCHES(
        calibrate_cuda_machine(refresh(other), cuda), InputError,
        MessageMatches(ContainsSubstring(key) && ContainsSubstring("without --refresh")));
  };
  Platform other = old_platform();
  other.device = "awake";
  check(other, "device");
  other = old_platform();
  other.host_cores += 1;
  check(other, "host_cores");
  other = old_platform();
  other.num_devices = 3;
  CHECK_THROWS_MATCHES(calibrate_cuda_machine(refresh(other), cuda), InputError,
                       MessageMatches(ContainsSubstring("there are 2 GPUs here")));
}

TEST_CASE("a machine that is refused once it is described is not measured") {
  test::SlowingCalibrator cuda;
  CalibrationOptions options = refresh(old_platform());
  options.described = [](const Platform& here) {
    CHECK(here.device == "asleep");
    CHECK(here.host_cores == usable_cores());
    CHECK(here.cpu_adam.empty());
    throw InputError("--earlier", "it is another machine", "Leave it out.");
  };
  CHECK_THROWS_MATCHES(calibrate_cuda_machine(options, cuda), InputError,
                       MessageMatches(ContainsSubstring("another machine")));
}

TEST_CASE("settings of NCCL in the environment are listed in order") {
  unsetenv("NCCL_NVLS_ENABLE");
  setenv("NCCL_VERSION", "2.28.3-1", 1);  // set by the package in a container
  setenv("NCCL_SHM_DISABLE", "1", 1);
  setenv("NCCL_P2P_DISABLE", "0", 1);
  CHECK(nccl_settings() == "NCCL_P2P_DISABLE=0 NCCL_SHM_DISABLE=1");
  unsetenv("NCCL_SHM_DISABLE");
  unsetenv("NCCL_P2P_DISABLE");
  CHECK(nccl_settings().empty());
}

}  // namespace
}  // namespace athanor
