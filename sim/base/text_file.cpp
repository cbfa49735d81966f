// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace athanor {
namespace {

namespace fs = std::filesystem;

std::string reason_of(int error) { return std::generic_category().message(error); }

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;

  [[nodiscard]] bool valid() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  /// Closes the file. Some file systems report a failed write only here.
  [[nodiscard]] bool close() noexcept { return ::close(std::exchange(descriptor_, -1)) == 0; }

 private:
  int descriptor_;
};

[[noreturn]] void fail_write(const std::string& path, int error) {
  throw Error(fmt::format("{}: cannot be written: {}.", path, reason_of(error)));
}

void write_all(const FileDescriptor& file, std::string_view content, const std::string& path) {
  while (!content.empty()) {
    const ssize_t written = ::write(file.get(), content.data(), content.size());
    if (written >= 0) {
      content.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno != EINTR) {
      fail_write(path, errno);
    }
  }
}

/// A new file in the target's folder that is removed unless it is renamed over the target.
class Replacement {
 public:
  explicit Replacement(const std::string& target)
      : target_(target), path_(unused_name(target)), file_(create(path_)) {
    if (!file_.valid()) {
      fail_write(target, errno);
    }
  }
  ~Replacement() {
    if (!renamed_) {
      ::unlink(path_.c_str());
    }
  }
  Replacement(const Replacement&) = delete;
  Replacement& operator=(const Replacement&) = delete;

  void write(std::string_view content) {
    write_all(file_, content, target_);
    if (::fsync(file_.get()) != 0 || !file_.close()) {
      fail_write(target_, errno);
    }
  }

  void rename_over_target() {
    if (::rename(path_.c_str(), target_.c_str()) != 0) {
      fail_write(target_, errno);
    }
    renamed_ = true;
  }

 private:
  static std::string unused_name(const std::string& target) {
    static std::atomic<int> counter{0};
    return fmt::format("{}.tmp.{}.{}", target, ::getpid(), counter++);
  }
  /// O_TRUNC instead of O_EXCL: a process of the same id that was killed may have left the name.
  static int create(const std::string& path) {
    return ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
  }

  std::string target_;
  std::string path_;
  FileDescriptor file_;
  bool renamed_ = false;
};

/// Makes a rename in `folder` survive a power failure.
void sync_folder(const fs::path& folder, const std::string& target) {
  const FileDescriptor file(
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // EINVAL: the file system has no such operation.
  if (!file.valid() || (::fsync(file.get()) != 0 && errno != EINVAL)) {
    fail_write(target, errno);
  }
}

/// Whether `path` is a pipe or a device (/dev/stdout), which is written to and never replaced.
bool is_special(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode) && !S_ISDIR(status.st_mode);
}

void write_special(const std::string& path, std::string_view content) {
  FileDescriptor file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (!file.valid()) {
    fail_write(path, errno);
  }
  write_all(file, content, path);
  if (!file.close()) {
    fail_write(path, errno);
  }
}

/// Target of a symbolic link, so that the link stays and its target is replaced; else `path`.
std::string resolve_link(const std::string& path) {
  std::error_code status;
  const fs::path resolved = fs::canonical(path, status);
  return status ? path : resolved.string();
}

void append_all(const FileDescriptor& file, std::string& text, Bytes limit,
                const std::string& path) {
  std::array<char, 1 << 16> buffer{};
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) {
      return;
    }
    if (count < 0 && errno != EINTR) {
      throw InputError(path, "cannot be read: " + reason_of(errno), "Check the path.");
    }
    if (count > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(count));
    }
    if (static_cast<Bytes>(text.size()) > limit) {
      throw InputError(path, "is larger than " + format_bytes(limit), "Is it the right file?");
    }
  }
}

}  // namespace

std::string read_text_file(const std::string& path, Bytes limit) {
  const FileDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.valid()) {
    throw InputError(path, "cannot be opened: " + reason_of(errno),
                     "Check the path and its permissions.");
  }
  std::string text;
  append_all(file, text, limit, path);
  return text;
}

void write_file_atomically(const std::string& path, std::string_view content) {
  if (is_special(path)) {
    write_special(path, content);
    return;
  }
  const std::string target = resolve_link(path);
  Replacement replacement(target);
  replacement.write(content);
  replacement.rename_over_target();
  sync_folder(fs::path(target).parent_path(), target);
}

}  // namespace athanor
