// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/measurement.hpp"

#include "calibrate/device/other_work.hpp"

#include <filesystem>

namespace athanor::cli {

std::string folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

std::string others_on_host(Sayings& sayings) {
  std::string others = other_work_on_host();
  if (!others.empty()) sayings.warn()(others);
  return others;
}

void add_output(CLI::App& verb, std::string& path, const std::string& help,
                const std::string& type) {
  CLI::Option* const output =
      verb.add_option("-o,--output", path, help)->required()->type_name(type);
  add_hidden_alias(verb, "--out", output);
}

}  // namespace athanor::cli
