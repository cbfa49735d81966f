// SPDX-License-Identifier: Apache-2.0
#include "sim/base/input_file.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <system_error>

namespace athanor {
namespace {

const char* kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a folder";
  if (S_ISFIFO(mode)) return "a pipe";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

[[noreturn]] void reject_kind(const std::string& path, mode_t mode) {
  throw InputError(path, std::string("cannot be read: it is ") + kind_of(mode),
                   S_ISDIR(mode) ? "Name a file in it." : "Write it to a file, and name that.");
}

}  // namespace

void fail_read(const std::string& path, int error) {
  throw InputError(path.empty() ? "''" : path,
                   "cannot be read: " + std::generic_category().message(error),
                   "Check the path and its permissions.");
}

InputFile open_input(const std::string& path) {
  // Opening a pipe waits for its writer without O_NONBLOCK. The flag means nothing for files.
  const int opened = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (opened < 0) {
    const int error = errno;
    struct stat status{};
    // A socket cannot be opened at all, and the system's reason for it explains nothing.
    if (::stat(path.c_str(), &status) == 0 && S_ISSOCK(status.st_mode)) {
      reject_kind(path, status.st_mode);
    }
    fail_read(path, error);
  }
  FileDescriptor file(opened);
  struct stat status{};
  if (::fstat(file.get(), &status) != 0) fail_read(path, errno);
  if (!S_ISREG(status.st_mode)) reject_kind(path, status.st_mode);
  return {std::move(file), static_cast<Bytes>(status.st_size)};
}

}  // namespace athanor
