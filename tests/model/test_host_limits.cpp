// SPDX-License-Identifier: Apache-2.0
// Limits of control groups, read from a /proc and a /sys that the test writes.
#include "sim/base/host_limits.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <filesystem>
#include <fstream>

namespace athanor {
namespace {

struct FakeHost {
  test::TemporaryFolder folder;

  void write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = folder.path().string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  [[nodiscard]] ControlGroupLimits limits() const {
    return control_group_limits(folder.path().string());
  }
};

constexpr const char* kVersion2 =
    "29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";

TEST_CASE("a host without control groups has no limits") {
  const FakeHost host;
  CHECK_FALSE(host.limits().memory);
  CHECK_FALSE(host.limits().cores);
}

TEST_CASE("version 2: the least limit of a group and of all above it holds") {
  const FakeHost host;
  host.write("/proc/self/mountinfo", kVersion2);
  host.write("/proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_0\n");
  const std::string job = "/sys/fs/cgroup/system.slice/slurmstepd.scope/job_7";
  host.write(job + "/memory.max", "8589934592\n");
  host.write(job + "/cpu.max", "350000 100000\n");
  host.write(job + "/step_0/memory.max", "max\n");
  host.write(job + "/step_0/cpu.max", "max 100000\n");
  host.write(job + "/step_0/user/task_0/memory.max", "17179869184\n");
  CHECK(host.limits().memory == 8 * kGiB);
  CHECK(host.limits().cores.value_or(0) == Catch::Approx(3.5));
  host.write(job + "/step_0/memory.high", "4294967296\n");
  CHECK(host.limits().memory == 4 * kGiB);
}

TEST_CASE("version 2 in a container shows its own group as the root") {
  const FakeHost host;
  host.write("/proc/self/mountinfo", kVersion2);
  host.write("/proc/self/cgroup", "0::/\n");
  host.write("/sys/fs/cgroup/memory.max", "1073741824\n");
  CHECK(host.limits().memory == kGiB);
  // A process that another namespace's tool started is above what is mounted.
  host.write("/proc/self/cgroup", "0::/../../other\n");
  CHECK(host.limits().memory == kGiB);
}

TEST_CASE("version 1: memory and processors have hierarchies of their own") {
  const FakeHost host;
  host.write("/proc/self/mountinfo",
             "34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
             "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n");
  host.write("/proc/self/cgroup", "4:memory:/slurm/uid_1/job_9\n3:cpu,cpuacct:/jobs\n1:pids:/x\n");
  host.write("/sys/fs/cgroup/memory/slurm/memory.limit_in_bytes", "9223372036854771712\n");
  host.write("/sys/fs/cgroup/memory/slurm/uid_1/memory.limit_in_bytes", "2147483648\n");
  host.write("/sys/fs/cgroup/memory/slurm/uid_1/job_9/memory.limit_in_bytes", "3221225472\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "-1\n");
  host.write("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_period_us", "100000\n");
  CHECK(host.limits().memory == 2 * kGiB);
  CHECK_FALSE(host.limits().cores);
  host.write("/sys/fs/cgroup/cpu,cpuacct/jobs/cpu.cfs_quota_us", "200000\n");
  CHECK(host.limits().cores.value_or(0) == Catch::Approx(2));
}

TEST_CASE("version 1 in a container: the mount begins at the container's group") {
  const FakeHost host;
  host.write("/proc/self/mountinfo",
             "35 31 0:32 /docker/ab\\040c /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n");
  host.write("/proc/self/cgroup", "4:memory:/docker/ab c/inner\n");
  host.write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2147483648\n");
  host.write("/sys/fs/cgroup/memory/inner/memory.limit_in_bytes", "1073741824\n");
  CHECK(host.limits().memory == kGiB);
}

}  // namespace
}  // namespace athanor
