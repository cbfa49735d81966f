// SPDX-License-Identifier: Apache-2.0
// Memory, processors and what limits them.
#include "cli/doctor/checks.hpp"
#include "cli/doctor/kernel_text.hpp"
#include "sim/base/host_limits.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace athanor::cli {

Finding check_memory(const Machine& machine) {
  const Bytes total = memory_of_host(machine);
  const Bytes limit = control_group_limits(machine.root).memory.value_or(total);
  if (total == 0) {
    return {"memory", Verdict::Costs, "/proc/meminfo does not tell",
            "plans are made for a guess of the memory", "Give --host-memory."};
  }
  const auto mapped = mapped_memory_limit(machine);
  if (mapped && *mapped < std::min(limit, total)) {
    return {"memory", Verdict::Costs,
            fmt::format("{} of the host's {}: ulimit -v or ulimit -d limits it",
                        format_bytes(*mapped), format_bytes(total)),
            "plans keep no more than that on the host, and what maps more fails",
            "Lift it: ulimit -v unlimited -d unlimited."};
  }
  if (limit >= total) return {"memory", Verdict::Good, format_bytes(total), "", ""};
  return {"memory", Verdict::Costs,
          fmt::format("{} of the host's {}: a control group limits it", format_bytes(limit),
                      format_bytes(total)),
          "plans keep no more than that on the host, and the kernel kills ranks that take more",
          "Start the container or the job with more (docker run --memory, sbatch --mem)."};
}

Finding check_cores(const Machine& machine) {
  const int host = count_in_list(machine.text("/sys/devices/system/cpu/online"));
  const int allowed = count_in_list(field(machine.text("/proc/self/status"), "Cpus_allowed_list:"));
  const auto quota = control_group_limits(machine.root).cores;
  const double usable = std::min<double>(allowed, quota.value_or(allowed));
  if (allowed == 0) {
    return {"cores", Verdict::Costs, "/proc/self/status does not tell",
            "threads are chosen by a guess of the processors", "Give --adam-threads."};
  }
  if (usable >= host) return {"cores", Verdict::Good, fmt::format("{}", allowed), "", ""};
  return {"cores", Verdict::Costs,
          fmt::format("{:.3g} of the host's {}: {} limits them", usable, host,
                      usable < allowed ? "a control group" : "an affinity mask"),
          "AdamW on the host, and ranks on the CPU, have these alone",
          "Start the container or the job with more (docker run --cpus, sbatch --cpus-per-task)."};
}

Finding check_locked_memory(const Machine& machine) {
  constexpr int kIpcLock = 14;
  const std::string name = "locked-memory";
  const auto limit = locked_memory_limit(machine);
  if (has_capability(machine, kIpcLock)) {
    return {name, Verdict::Good, "no limit (this process has CAP_IPC_LOCK)", "", ""};
  }
  if (!limit) return {name, Verdict::Good, "no limit", "", ""};
  const std::string found = fmt::format("ulimit -l allows {}", format_bytes(*limit));
  if (machine.names_in("/sys/class/infiniband").empty()) {
    return {
        name, Verdict::Good,
        found + "; it counts for InfiniBand, which is not here, and not for CUDA's pinned memory",
        "", ""};
  }
  return {
      name, Verdict::Costs, found,
      "NCCL and MPI cannot register their buffers with InfiniBand: they fail, or use TCP",
      "Set memlock to unlimited in /etc/security/limits.conf (docker run --ulimit memlock=-1)."};
}

Finding check_numa(const Machine& machine) {
  std::string nodes;
  int count = 0;
  for (const std::string& name : machine.names_in("/sys/devices/system/node")) {
    if (!name.starts_with("node") || name.find_first_of("0123456789") != 4) continue;
    ++count;
    nodes += fmt::format("{}{} has processors {}", nodes.empty() ? "" : ", ", name,
                         first_line(machine.text("/sys/devices/system/node/" + name + "/cpulist")));
  }
  if (count < 2) return {"numa", Verdict::Good, "one node", "", ""};
  return {"numa", Verdict::Costs, fmt::format("{} nodes: {}", count, nodes),
          "copies and AdamW on the host are slower where a rank's memory is on the other node, and "
          "vary from run to run",
          "With one GPU, start athanor by numactl --cpunodebind=N --membind=N; "
          "/sys/bus/pci/devices/*/numa_node names a GPU's N."};
}

Finding check_shared_memory(const Machine& machine) {
  const std::string name = "shared-memory";
  const std::string cost =
      "tune --snapshot keeps the optimizer state of all ranks there, and MPI its messages";
  const std::string way_out =
      "Enlarge it: mount -o remount,size=80% /dev/shm, or docker run --shm-size.";
  const auto room = machine.room(machine.root + "/dev/shm");
  if (!room) return {name, Verdict::Costs, "there is no /dev/shm", cost, way_out};
  const std::string found = fmt::format("/dev/shm has {} free of {}", format_bytes(room->free),
                                        format_bytes(room->total));
  // Containers have 64 MiB unless told otherwise, and systems half of their memory.
  const bool is_small = room->free < kGiB;
  return is_small ? Finding{name, Verdict::Costs, found, cost, way_out}
                  : Finding{name, Verdict::Good, found, "", ""};
}

}  // namespace athanor::cli
