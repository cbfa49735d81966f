// SPDX-License-Identifier: Apache-2.0
#include "executor/data/token_files.hpp"

#include "executor/io/mapped_file.hpp"
#include "sim/base/errors.hpp"

#include <glob.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <string_view>

namespace athanor {
namespace {

namespace fs = std::filesystem;

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

/// Takes the digits that `text` begins with, less zeros in front.
std::string_view take_number(std::string_view& text) {
  const auto end = std::find_if_not(text.begin(), text.end(), is_digit);
  std::string_view digits = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  text.remove_prefix(digits.size());
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size()));
  return digits;
}

/// Orders shard_2 before shard_10.
bool comes_before(const std::string& left, const std::string& right) {
  std::string_view a = left, b = right;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view x = take_number(a), y = take_number(b);
      if (x.size() != y.size()) return x.size() < y.size();
      if (x != y) return x < y;
    } else {
      if (a.front() != b.front()) return a.front() < b.front();
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  return a.empty() && b.empty() ? left < right : a.empty();
}

std::vector<std::string> matches_of(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  std::sort(paths.begin(), paths.end(), comes_before);
  return paths;
}

/// Removes an index whose .bin is listed, too.
void keep_one_of_pairs(std::vector<std::string>& paths) {
  std::erase_if(paths, [&](const std::string& path) {
    if (fs::path(path).extension() != ".idx") return false;
    const std::string partner = fs::path(path).replace_extension(".bin").string();
    return std::find(paths.begin(), paths.end(), partner) != paths.end();
  });
}

}  // namespace

std::vector<std::string> expand_data(const std::vector<std::string>& names) {
  std::vector<std::string> files;
  for (const std::string& name : names) {
    if (is_there(name) || name.find_first_of("*?[") == std::string::npos) {
      files.push_back(name);
      continue;
    }
    std::vector<std::string> matches = matches_of(name);
    if (matches.empty()) {
      throw InputError(name, "matches no file", "Check the folder and the pattern.");
    }
    keep_one_of_pairs(matches);
    files.insert(files.end(), matches.begin(), matches.end());
  }
  return files;
}

}  // namespace athanor
