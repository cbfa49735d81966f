// SPDX-License-Identifier: Apache-2.0
#include "executor/job/line_log.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

namespace athanor {
namespace {

[[noreturn]] void fail(const std::string& path, const char* what) {
  throw Error(fmt::format("{}: cannot {}: {}", path, what, std::strerror(errno)));
}

FileDescriptor open_to_append(const std::string& path) {
  FileDescriptor file(::open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC | O_NOFOLLOW));
  if (!file.valid()) fail(path, "open");
  return file;
}

struct stat state_of(const FileDescriptor& file, const std::string& path) {
  struct stat state{};
  if (::fstat(file.get(), &state) != 0) fail(path, "look at");
  return state;
}

/// Reads all of an open file, which may have no name any more.
std::string content_of(const FileDescriptor& file, const std::string& path) {
  std::string content(static_cast<std::size_t>(state_of(file, path).st_size), '\0');
  for (std::size_t done = 0; done < content.size();) {
    const ssize_t count =
        ::pread(file.get(), content.data() + done, content.size() - done, static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "read");
    if (count == 0) content.resize(done);
    done += static_cast<std::size_t>(count);
  }
  return content;
}

void write_all(const FileDescriptor& file, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t count = ::write(file.get(), text.data(), text.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "write");
    text.remove_prefix(static_cast<std::size_t>(count));
  }
}

}  // namespace

LineLog::LineLog(std::string path)
    : path_(std::move(path)), file_(open_to_append(path_)), opened_(state_of(file_, path_)) {}

std::string LineLog::append(std::string_view line) {
  std::string remark = is_in_place() || is_lost_ ? "" : open_again();
  write_all(file_, fmt::format("{}\n", line), path_);
  return remark;
}

bool LineLog::is_in_place() const {
  struct stat found{};
  if (::lstat(path_.c_str(), &found) != 0) return errno != ENOENT && errno != ENOTDIR;
  return found.st_dev == opened_.st_dev && found.st_ino == opened_.st_ino;
}

std::string LineLog::open_again() {
  namespace fs = std::filesystem;
  std::error_code unknown;
  const fs::file_status found = fs::symlink_status(path_, unknown);
  const bool was_replaced = fs::exists(found);
  is_lost_ = was_replaced ? !fs::is_regular_file(found)
                          : !fs::is_directory(fs::path(path_).parent_path(), unknown);
  if (is_lost_) {
    return path_ +
           (was_replaced ? " was replaced by what is no regular file"
                         : " was removed with its folder") +
           ": its lines from now on are lost";
  }
  if (!was_replaced) write_file_atomically(path_, content_of(file_, path_));
  file_ = open_to_append(path_);
  opened_ = state_of(file_, path_);
  return path_ + (was_replaced ? " was replaced by another file: it is gone on with"
                               : " was removed: it is made again with the lines that it had");
}

}  // namespace athanor
