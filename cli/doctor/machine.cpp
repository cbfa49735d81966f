// SPDX-License-Identifier: Apache-2.0
#include "cli/doctor/machine.hpp"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

namespace athanor::cli {

namespace fs = std::filesystem;

std::string Machine::variable(const std::string& name) const {
  const auto found = environment.find(name);
  return found == environment.end() ? "" : found->second;
}

std::string Machine::find_program(const std::string& name) const {
  const auto runs = [](const std::string& path) { return ::access(path.c_str(), X_OK) == 0; };
  if (name.find('/') != std::string::npos) return runs(name) ? name : "";
  std::istringstream folders(variable("PATH"));
  for (std::string place; std::getline(folders, place, ':');) {
    const std::string path = root + (place.empty() ? "." : place) + "/" + name;
    if (runs(path) && !fs::is_directory(path)) return path;
  }
  return "";
}

std::string Machine::text(const std::string& path) const {
  std::ifstream file(root + path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

bool Machine::has(const std::string& path) const {
  std::error_code absent;
  return fs::exists(root + path, absent);
}

std::vector<std::string> Machine::names_in(const std::string& path) const {
  std::vector<std::string> names;
  std::error_code absent;  // a folder that is not there holds nothing
  for (const auto& entry : fs::directory_iterator(root + path, absent)) {
    names.push_back(entry.path().filename().string());
  }
  std::ranges::sort(names);
  return names;
}

}  // namespace athanor::cli
