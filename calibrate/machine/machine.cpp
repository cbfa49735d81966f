// SPDX-License-Identifier: Apache-2.0
#include "calibrate/machine/machine.hpp"

#include "sim/base/host.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <mpi.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {
namespace {

std::string mpi_version() {
  std::string text(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  return text.substr(0, text.find_first_of(",\n\0", 0, 3));
}

}  // namespace

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
  provenance.date = utc_now().substr(0, std::string_view("2026-11-25").size());
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
