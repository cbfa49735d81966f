// SPDX-License-Identifier: Apache-2.0
#include "sim/base/text_file.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/file_kinds.hpp"
#include "sim/base/input_file.hpp"

#include <fcntl.h>
#include <fmt/core.h>
#include <fnmatch.h>
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

[[noreturn]] void reject_size(const std::string& path, Bytes limit) {
  throw InputError(path, "is larger than " + format_bytes(limit), "Is it the right file?");
}

/// Throws InputError where the first block of a file shows that it is no text. A sparse file, a
/// tensor or an archive is refused before the rest of it takes time and memory.
void require_text(std::string_view block, const std::string& path) {
  require_fetched(block, path);
  if (const auto kind = file_kind(block)) {
    throw InputError(path, fmt::format("is {}", kind->name), "Is it the right file?");
  }
  const std::size_t zero = block.find('\0');
  if (zero == std::string_view::npos) return;
  throw InputError(path, fmt::format("is no text: byte {} is zero", zero), "Is it the right file?");
}

void append_all(const FileDescriptor& file, std::string& text, Bytes limit,
                const std::string& path) {
  std::array<char, 1 << 16> buffer{};
  while (true) {
    const ssize_t count = ::read(file.get(), buffer.data(), buffer.size());
    if (count == 0) return;
    if (count < 0) {
      if (errno == EINTR) continue;
      fail_read(path, errno);
    }
    const std::string_view block(buffer.data(), static_cast<std::size_t>(count));
    if (text.empty()) require_text(block, path);
    text += block;
    if (static_cast<Bytes>(text.size()) > limit) reject_size(path, limit);
  }
}

}  // namespace

std::string read_text_file(const std::string& path, Bytes limit) {
  const InputFile file = open_input(path);
  if (file.size > limit) reject_size(path, limit);
  std::string text;
  append_all(file.descriptor, text, limit, path);
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

bool is_left_over_from(const std::string& target, const std::string& name) {
  const std::string pattern = target + ".tmp.+([0-9]).+([0-9])";
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_EXTMATCH) == 0;
}

}  // namespace athanor
