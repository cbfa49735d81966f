// SPDX-License-Identifier: Apache-2.0
#include "executor/job/run_folder.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/trace.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;

/// Returns the folder itself, or the first one above it that exists.
fs::path nearest_existing(fs::path path) {
  std::error_code error;
  path = fs::absolute(path, error);
  while (!fs::exists(path, error) && path.has_relative_path()) path = path.parent_path();
  return path;
}

void create_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw Error(path + ": cannot create: " + error.message());
}

}  // namespace

void check_run_folder(const RunFolder& folder, bool resuming) {
  const fs::path existing = nearest_existing(folder.path);
  std::error_code error;
  if (!fs::is_directory(existing, error)) {
    throw InputError("--output:" + folder.path, existing.string() + " is no folder",
                     "Name another folder.");
  }
  if (::access(existing.c_str(), W_OK | X_OK) != 0) {
    throw InputError("--output:" + folder.path,
                     existing.string() + " cannot be written: " + std::strerror(errno),
                     "Name another folder.");
  }
  if (!resuming && fs::exists(folder.metrics(), error)) {
    throw InputError("--output:" + folder.path, "already holds a run",
                     "Add --resume to go on with it, or name another folder.");
  }
}

// The kernel drops the lock when the process ends, however it ends.
RunFolderLock::RunFolderLock(const RunFolder& folder) {
  create_folder(folder.path);
  descriptor_ = ::open((folder.path + "/.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644);
  if (descriptor_ < 0) throw Error(folder.path + "/.lock: cannot open: " + std::strerror(errno));
  if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
  ::close(descriptor_);
  throw InputError("--output:" + folder.path, "another process trains in this folder",
                   "Wait for it to end, or name another folder.");
}

RunFolderLock::~RunFolderLock() { ::close(descriptor_); }

void start_run_folder(const RunFolder& folder, const std::string& run_json, const Plan& plan,
                      const Profile& profile, const std::optional<Platform>& platform) {
  create_folder(folder.checkpoints());
  const auto write = [&](const char* name, const std::string& text) {
    write_file_atomically(folder.path + "/" + name, text);
  };
  write("run.json", run_json);
  write("plan.json", to_json(plan));
  write("profile.json", to_json(profile));
  if (platform) write("platform.json", to_json(*platform));
}

void write_measured_trace(const RunFolder& folder, const Program& program,
                          const Timeline& timeline) {
  std::ostringstream trace;
  write_trace(trace, program, timeline);
  write_file_atomically(folder.path + "/measured.trace.json", trace.str());
}

}  // namespace athanor
