// SPDX-License-Identifier: Apache-2.0
// Files that a user may give where another kind of file is meant.
#pragma once

#include "tests/support/temporary_folder.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace athanor::test {

struct HostileFile {
  std::string what, path;
};

/// A pipe without a writer, a device without an end, a folder, an empty file, a sparse file of 1
/// GB, a file without permissions (where that stops this user), names that are no UTF-8 or hold
/// control characters, and deep nesting. All names end in `extension`.
inline std::vector<HostileFile> hostile_files(const TemporaryFolder& folder,
                                              const std::string& extension) {
  const auto named = [&](const std::string& name) { return folder.file(name + extension); };
  const auto write = [](const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary) << content;
    return path;
  };
  const std::string pipe = named("pipe");
  if (::mkfifo(pipe.c_str(), 0600) != 0) throw std::runtime_error("cannot make a pipe");
  std::filesystem::create_directory(named("folder"));
  const std::string sparse = write(named("sparse"), "");
  std::filesystem::resize_file(sparse, 1'000'000'000);
  std::vector<HostileFile> files{
      {"a pipe", pipe},
      {"a device", "/dev/zero"},
      {"a folder", named("folder")},
      {"an empty file", write(named("empty"), "")},
      {"a sparse file", sparse},
      {"a name that is no UTF-8", named("missing\xff\xfe")},
      {"garbage under a name that is no UTF-8", write(named("garbage\xff"), "\x01\x02\x03")},
      {"a name with control characters", named("red\x1b[31m\nline")},
      {"deep nesting", write(named("deep"), std::string(100'000, '['))},
      {"deep nesting of objects", write(named("deep-objects"),
                                        [] {
                                          std::string text;
                                          for (int i = 0; i < 100'000; ++i) text += "{\"a\":";
                                          return text;
                                        }())},
  };
  if (::geteuid() != 0) {  // root reads everything
    files.push_back({"an unreadable file", write(named("unreadable"), "{}")});
    ::chmod(files.back().path.c_str(), 0);
  }
  return files;
}

}  // namespace athanor::test
