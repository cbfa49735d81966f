// SPDX-License-Identifier: Apache-2.0
// The examination of a machine that has everything, and of one for each thing that can be missing.
#include "cli/doctor/examination.hpp"
#include "tests/doctor/fake_machine.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <nlohmann/json.hpp>

namespace athanor::test {
namespace {

using Catch::Matchers::ContainsSubstring;
using cli::Finding;
using cli::Verdict;

/// Checks that a finding says what it costs and names the way out, but lets training and tuning be.
void costs(const FakeMachine& host, const std::string& name, const std::string& found,
           const std::string& way_out) {
  const Finding finding = host.finding(name);
  CHECK(finding.verdict == Verdict::Costs);
  CHECK_THAT(finding.found, ContainsSubstring(found));
  CHECK_FALSE(finding.cost.empty());
  CHECK_THAT(finding.way_out, ContainsSubstring(way_out));
}

TEST_CASE("a machine that has everything costs nothing") {
  FakeMachine host;
  for (const Finding& finding : cli::examine(host.machine())) {
    INFO(finding.name << ": " << finding.found);
    CHECK(finding.verdict == Verdict::Good);
    CHECK(finding.cost.empty());
    CHECK(finding.way_out.empty());
  }
  CHECK_THAT(host.finding("driver").found,
             ContainsSubstring("580.95.05 for CUDA 13.0, 2 x NVIDIA H100 with 80.0 GiB"));
  CHECK_THAT(host.finding("folder").found, ContainsSubstring("ext4 on nvme0n1p2"));
}

TEST_CASE("without a driver training runs on the CPU") {
  FakeMachine host;
  host.libraries.clear();
  costs(host, "driver", "no NVIDIA GPU", "platforms/");
  CHECK(host.finding("cupti").verdict == Verdict::Good);
  host.write("/sys/bus/pci/devices/0000:17:00.0/vendor", "0x10de\n");
  host.write("/sys/bus/pci/devices/0000:17:00.0/class", "0x030200\n");
  costs(host, "driver", "no driver is installed", "580");
  host.write("/proc/driver/nvidia/version", "NVRM version: 580\n");
  costs(host, "driver", "its libraries are not here", "--gpus all");
  CHECK(cli::works(cli::examine(host.machine())));
}

TEST_CASE("a driver that is broken, old or without GPUs is told apart") {
  const FakeMachine host;
  fake_nvml().init = 18;
  costs(host, "driver", "code 18", "nvidia-smi");
  fake_nvml() = {.cuda = 12040};
  costs(host, "driver", "CUDA 12.4", "580");
  fake_nvml() = {.num_gpus = 0};
  costs(host, "driver", "no GPU", "--gpus all");
}

TEST_CASE("GPUs without a plugin, an energy counter or direct access cost something") {
  FakeMachine host;
  host.remove("/athanor/libathanor-cuda.so");
  costs(host, "cuda-backend", "is not here", "nvcc 13");
  fake_nvml() = {.counts_energy = false};
  costs(host, "energy-counter", "no energy of 2 GPUs", "host");
  fake_nvml() = {.num_gpus = 4, .peer_status = 4};
  costs(host, "nccl-paths", "6 of 6 pairs", "topo");
  fake_nvml() = {};
  host.machine().environment.insert_or_assign("NCCL_P2P_DISABLE", std::string("1"));
  costs(host, "nccl-paths", "NCCL_P2P_DISABLE=1", "Unset");
}

TEST_CASE("CUPTI may be absent, beside torch, or forbidden") {
  FakeMachine host;
  host.libraries.erase("libcupti.so.13");
  costs(host, "cupti", "not found", "nvidia-cuda-cupti");
  host.libraries.insert("/site/nvidia/cu13/lib/libcupti.so.13");
  CHECK(host.finding("cupti").verdict == Verdict::Good);
  host.write("/proc/driver/nvidia/params", "RmProfilingAdminOnly: 1\n");
  costs(host, "cupti", "administrators", "NVreg_RestrictProfilingToAdminUsers=0");
  host.write("/proc/self/status", "CapEff:\t0000000000200000\nCpus_allowed_list:\t0-15\n");
  CHECK(host.finding("cupti").verdict == Verdict::Good);
}

TEST_CASE("a limit of locked memory costs something where InfiniBand is") {
  const FakeMachine host;
  host.write("/proc/self/limits",
             "Max locked memory         8388608              8388608  bytes\n");
  CHECK(host.finding("locked-memory").verdict == Verdict::Good);
  CHECK_THAT(host.finding("locked-memory").found, ContainsSubstring("8.00 MiB"));
  host.write("/sys/class/infiniband/mlx5_0/x", "");
  costs(host, "locked-memory", "8.00 MiB", "memlock");
  host.write("/proc/self/status", "CapEff:\t0000000000004000\nCpus_allowed_list:\t0-15\n");
  CHECK(host.finding("locked-memory").verdict == Verdict::Good);
}

TEST_CASE("a control group's limits of memory and processors are named") {
  const FakeMachine host;
  host.write("/sys/fs/cgroup/memory.max", "8589934592\n");
  host.write("/sys/fs/cgroup/cpu.max", "350000 100000\n");
  costs(host, "memory", "8.00 GiB of the host's 64.0 GiB", "--memory");
  costs(host, "cores", "3.5 of the host's 16: a control group", "--cpus");
  host.write("/sys/fs/cgroup/cpu.max", "max 100000\n");
  host.write("/proc/self/status", "CapEff:\t0\nCpus_allowed_list:\t0-1,4\n");
  costs(host, "cores", "3 of the host's 16: an affinity mask", "--cpus");
}

TEST_CASE("a limit of what a process may map is named") {
  const FakeMachine host;
  host.write("/proc/self/limits",
             "Max data size             unlimited            unlimited            bytes\n"
             "Max address space         3221225472           unlimited            bytes\n");
  costs(host, "memory", "3.00 GiB of the host's 64.0 GiB: ulimit -v", "ulimit -v unlimited");
  host.write("/proc/self/limits",
             "Max data size             1073741824           unlimited            bytes\n"
             "Max address space         3221225472           unlimited            bytes\n");
  costs(host, "memory", "1.00 GiB of the host's 64.0 GiB", "ulimit -v unlimited");
}

TEST_CASE("a kernel that tells nothing is no reason to fail") {
  const FakeMachine host;
  for (const char* path : {"/proc", "/sys", "/dev"}) host.remove(path);
  costs(host, "memory", "does not tell", "--host-memory");
  costs(host, "cores", "does not tell", "--adam-threads");
  costs(host, "shared-memory", "no /dev/shm", "--shm-size");
}

TEST_CASE("several NUMA nodes are named with their processors") {
  const FakeMachine host;
  host.write("/sys/devices/system/node/node1/cpulist", "8-15\n");
  costs(host, "numa", "2 nodes: node0 has processors 0-15, node1 has processors 8-15", "numactl");
}

TEST_CASE("shared memory of a container is too small for redo snapshots") {
  FakeMachine host;
  host.machine().room = [](const std::string&) { return cli::Room{64 * kMiB, 64 * kMiB}; };
  costs(host, "shared-memory", "64.0 MiB free of 64.0 MiB", "--shm-size");
}

TEST_CASE("a folder that cannot be written, or only through the page cache, costs something") {
  FakeMachine host;
  host.machine().file_access = [](const std::string&) { return cli::FileAccess::NotWritable; };
  costs(host, "folder", "nothing can be written", "--nvme");
  host.machine().file_access = [](const std::string&) { return cli::FileAccess::PageCache; };
  costs(host, "folder", "without direct I/O", "--nvme");
}

TEST_CASE("a disk that rotates costs something, by its own queue or that of its partition's disk") {
  const FakeMachine host;
  host.write("/sys/dev/block/queue/rotational", "1\n");
  costs(host, "folder", "rotates", "NVMe");
  host.write("/sys/dev/block/259:2/queue/rotational", "0\n");
  CHECK(host.finding("folder").verdict == Verdict::Good);
}

TEST_CASE("without MPI's launcher, or with another MPI's, ranks on the CPU need torchrun") {
  FakeMachine host;
  host.outputs["mpirun"] = {0, "HYDRA build details:\n"};
  costs(host, "mpi", "not Open MPI's", "openmpi-bin");
  host.remove("/bin/mpirun");
  costs(host, "mpi", "no mpirun", "openmpi-bin");
  CHECK(cli::works(cli::examine(host.machine())));
}

TEST_CASE("a Python without torch or transformers is named with what it lacks") {
  FakeMachine host;
  host.outputs["python3"] = {0,
                             R"({"version": "3.11.7", "transformers": "5", "safetensors": "1"})"};
  costs(host, "python", "without torch", "ATHANOR_PYTHON");
  CHECK(host.finding("python").cost == "athanor trace does not run");
  host.outputs["python3"] = {0, R"({"version": "3.11.7"})"};
  costs(host, "python", "without torch, transformers, safetensors", "ATHANOR_PYTHON");
  host.outputs["python3"] = {1, "broken\n"};
  costs(host, "python", "no Python that starts", "ATHANOR_PYTHON");
  host.machine().environment.insert_or_assign("ATHANOR_PYTHON", std::string("/nowhere/python"));
  costs(host, "python", "no Python that starts", "ATHANOR_PYTHON");
}

TEST_CASE("a trainer that does not start blocks training, and says why") {
  FakeMachine host;
  host.outputs["athanor-train"] = {
      127, "athanor-train: error while loading shared libraries: libmpi.so.40: not found\n"};
  const Finding finding = host.finding("train");
  CHECK(finding.verdict == Verdict::Blocks);
  CHECK_THAT(finding.found, ContainsSubstring("libmpi.so.40"));
  CHECK_FALSE(cli::works(cli::examine(host.machine())));
}

TEST_CASE("a program that is missing blocks what it does; without the calibrator tuning works") {
  FakeMachine host;
  host.remove("/athanor/athanor-calibrate");
  costs(host, "calibrate", "not installed", "wheel athanor");
  CHECK(cli::works(cli::examine(host.machine())));
  host.remove("/athanor/athanor-sim");
  CHECK(host.finding("tune").verdict == Verdict::Blocks);
  CHECK_THAT(cli::as_text(cli::examine(host.machine())),
             ContainsSubstring("What does not work here: tune."));
}

TEST_CASE("the JSON of an examination holds every finding and the system") {
  FakeMachine host;
  host.write("/etc/os-release", "ID=debian\nPRETTY_NAME=\"Debian\"\n");
  const nlohmann::json json = cli::as_json(host.machine(), cli::examine(host.machine()));
  CHECK(json.at("works") == true);
  CHECK(json.at("system") == "Debian");
  CHECK(json.at("findings").size() == cli::examine(host.machine()).size());
  CHECK(json.at("findings").at(0).at("verdict") == "good");
}

TEST_CASE("this machine can be examined") {
  const cli::Machine machine = cli::this_machine();
  CHECK_FALSE(machine.names_in("/proc").empty());
  CHECK(machine.run({"/bin/sh", "-c", "echo out; echo err >&2; exit 3"})->text == "out\nerr\n");
  CHECK(machine.run({"/bin/sh", "-c", "exit 3"})->exit_code == 3);
  CHECK_FALSE(machine.run({"/nowhere/program"}));
  CHECK_FALSE(machine.open_library("libnowhere.so.9"));
  const TemporaryFolder folder;
  CHECK(machine.file_access(folder.path()) != cli::FileAccess::NotWritable);
  CHECK(std::filesystem::is_empty(folder.path()));
  CHECK(machine.file_access("/nowhere") == cli::FileAccess::NotWritable);
}

}  // namespace
}  // namespace athanor::test
