// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/machine.hpp"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <sched.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace athanor {
namespace {

/// Returns the control group's limit; a file that is absent or says "max" sets none.
Bytes control_group_limit() {
  Bytes limit = std::numeric_limits<Bytes>::max();
  std::ifstream file("/sys/fs/cgroup/memory.max");
  Bytes value = 0;
  if (file >> value && value > 0) {
    limit = value;
  }
  return limit;
}

std::string mpi_version() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.substr(0, text.find_first_of(",\n\0", 0, 3));
}

}  // namespace

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("model name") && colon != std::string::npos) {
      return line.substr(colon + 2);
    }
  }
  return "unknown processor";
}

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) == 0) {
    return std::max(1, CPU_COUNT(&set));
  }
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

Bytes usable_memory() {
  const Bytes physical = Bytes{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGE_SIZE);
  return std::min(physical, control_group_limit());
}

std::map<std::string, std::string> software_versions() {
  utsname kernel{};
  uname(&kernel);
  return {{"athanor", ATHANOR_VERSION},
          {"compiler", __VERSION__},
          {"LibTorch", TORCH_VERSION},
          {"MPI", mpi_version()},
          {"kernel", kernel.release}};
}

Provenance measured_here(const std::string& command) {
  Provenance provenance;
  provenance.source = Source::Measured;
  provenance.date = fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
  provenance.command = command;
  provenance.versions = software_versions();
  return provenance;
}

std::string nccl_settings() {
  std::vector<std::string> settings;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const std::string_view setting = *variable;
    const bool is_package = setting.starts_with("NCCL_VERSION=");  // set by container images
    if (setting.starts_with("NCCL_") && !is_package) settings.emplace_back(setting);
  }
  std::ranges::sort(settings);
  return fmt::format("{}", fmt::join(settings, " "));
}

void add_note(Provenance& provenance, const std::string& note) {
  provenance.notes += (provenance.notes.empty() ? "" : "; ") + note;
}

}  // namespace athanor
