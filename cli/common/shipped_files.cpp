// SPDX-License-Identifier: Apache-2.0
#include "cli/common/shipped_files.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/nearest_name.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace athanor::cli {
namespace {

namespace fs = std::filesystem;

/// Folder and ending of the files of a kind. Wheels and packages have the programs in bin, beside
/// share.
struct Place {
  fs::path folder;
  std::string ending;
  std::string noun;
};

Place place_of(Shipped kind) {
  std::error_code unknown;
  const fs::path program = fs::read_symlink("/proc/self/exe", unknown);
  const fs::path share = program.parent_path().parent_path() / "share" / "athanor";
  return kind == Shipped::Platforms ? Place{share / "platforms", ".json", "platform"}
                                    : Place{share / "profiles", ".profile.json", "profile"};
}

}  // namespace

std::vector<std::string> shipped_names(Shipped kind) {
  const Place place = place_of(kind);
  std::vector<std::string> names;
  std::error_code absent;  // a build ships nothing
  for (const auto& entry : fs::directory_iterator(place.folder, absent)) {
    const std::string name = entry.path().filename().string();
    if (name.ends_with(place.ending))
      names.push_back(name.substr(0, name.size() - place.ending.size()));
  }
  std::ranges::sort(names);
  return names;
}

std::string file_or_shipped(const std::string& text, Shipped kind) {
  std::error_code absent;
  const bool is_path = text.empty() || text.find('/') != std::string::npos ||
                       text.ends_with(".json") || fs::exists(text, absent);
  const std::vector<std::string> names = is_path ? std::vector<std::string>() : shipped_names(kind);
  if (names.empty()) return text;
  const Place place = place_of(kind);
  if (std::ranges::binary_search(names, text)) {
    return (place.folder / (text + place.ending)).string();
  }
  const std::string nearest = nearest_name(text, names);
  throw InputError(
      text, fmt::format("there is no such file, and no {} of this name", place.noun),
      fmt::format("{}Installed: {}.", nearest.empty() ? "" : fmt::format("Is it '{}'? ", nearest),
                  fmt::join(names, ", ")));
}

CLI::Validator shipped_file(Shipped kind) {
  const auto replace = [kind](std::string& text) {
    text = file_or_shipped(text, kind);
    return std::string();
  };
  return {replace, ""};
}

}  // namespace athanor::cli
