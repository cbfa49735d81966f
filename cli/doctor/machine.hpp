// SPDX-License-Identifier: Apache-2.0
// The machine that doctor examines. Its facts come from functions that a test replaces, so that
// each can be missing.
#pragma once

#include "sim/base/quantities.hpp"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace athanor::cli {

/// Finds a function of a library that is open; null where it has none of that name.
using Symbols = std::function<void*(const char* name)>;

struct ProgramOutput {
  int exit_code = 0;
  std::string text;  ///< stdout and stderr
};

struct Room {
  Bytes total = 0, free = 0;
};

/// How files of a folder reach its disk.
enum class FileAccess { Direct, PageCache, NotWritable };

struct Machine {
  std::string root;    ///< stands before /proc, /sys and /dev, and before every folder of PATH
  std::string folder;  ///< current folder
  std::string program_folder;  ///< that of athanor's programs
  std::map<std::string, std::string> environment;
  /// Opens a shared library; empty where there is none.
  std::function<Symbols(const std::string& name)> open_library;
  /// Runs a program to its end; nothing where it cannot be started.
  std::function<std::optional<ProgramOutput>(const std::vector<std::string>& words)> run;
  /// Room of the file system that holds a folder; nothing where there is no such folder.
  std::function<std::optional<Room>(const std::string& folder)> room;
  std::function<FileAccess(const std::string& folder)> file_access;

  /// Returns an environment variable; empty where it is not set.
  [[nodiscard]] std::string variable(const std::string& name) const;
  /// Returns the path of a program by PATH; empty where no folder has it.
  [[nodiscard]] std::string find_program(const std::string& name) const;
  /// Returns a small text file under the root; empty where it cannot be read.
  [[nodiscard]] std::string text(const std::string& path) const;
  [[nodiscard]] bool has(const std::string& path) const;
  /// Returns the sorted names in a folder under the root.
  [[nodiscard]] std::vector<std::string> names_in(const std::string& path) const;
};

/// Returns the machine that this process runs on.
[[nodiscard]] Machine this_machine();

}  // namespace athanor::cli
