// SPDX-License-Identifier: Apache-2.0
#include "cli/calibrate/measurement.hpp"

#include "calibrate/device/other_work.hpp"
#include "sim/base/errors.hpp"

#include <filesystem>

namespace athanor::cli {

std::string folder_of(const std::string& path) {
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  return folder.empty() ? "." : folder.string();
}

void require_folder_of(const std::string& option, const std::string& path) {
  if (!std::filesystem::is_directory(folder_of(path))) {
    throw InputError(option, "there is no folder " + folder_of(path),
                     "Make it, or choose another.");
  }
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
