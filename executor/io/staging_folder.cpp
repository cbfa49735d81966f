// SPDX-License-Identifier: Apache-2.0
#include "executor/io/staging_folder.hpp"

#include "executor/io/output_folder.hpp"
#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string_view>
#include <system_error>
#include <vector>

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kRandomPart = "XXXXXX";

[[noreturn]] void fail(const fs::path& folder, const std::error_code& reason) {
  throw Error(fmt::format("{}: cannot be written: {}", folder.string(), reason.message()));
}

fs::path without_trailing_slash(const fs::path& path) {
  return path.has_filename() ? path : path.parent_path();
}

/// First part of a staging folder's path; random letters follow.
std::string staging_prefix(const fs::path& target) {
  const std::string name = fmt::format(".{}.athanor-export-", target.filename().string());
  return (target.parent_path() / name).string();
}

/// Whether something is mounted on `folder`, so that no other folder can be put in its place.
bool is_mount_point(const fs::path& folder) {
  struct statx status{};
  if (::statx(AT_FDCWD, folder.c_str(), 0, STATX_TYPE, &status) == 0 &&
      (status.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT) != 0) {
    return (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  }
  struct stat inner{}, outer{};
  return ::stat(folder.c_str(), &inner) == 0 && ::stat((folder / "..").c_str(), &outer) == 0 &&
         inner.st_dev != outer.st_dev;
}

/// Opens and locks a folder. Returns -1 where another process holds the lock.
int lock_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  if (descriptor < 0 || ::flock(descriptor, LOCK_EX | LOCK_NB) == 0) return descriptor;
  ::close(descriptor);
  return -1;
}

/// Whether all entries are what an export writes: files, and folders of files.
bool holds_plain_files(const fs::path& folder) {
  std::error_code error;
  const fs::recursive_directory_iterator entries(folder, error);
  return !error && std::all_of(begin(entries), end(entries), [](const fs::directory_entry& entry) {
    const fs::file_status status = entry.symlink_status();
    return fs::is_regular_file(status) || fs::is_directory(status);
  });
}

void remove_if_abandoned(const fs::path& folder) {
  const int lock = lock_folder(folder);
  if (lock < 0) return;
  std::error_code ignored;  // leftovers harm nobody
  if (holds_plain_files(folder)) fs::remove_all(folder, ignored);
  ::close(lock);
}

void remove_abandoned(const fs::path& target) {
  const std::string prefix = staging_prefix(target);
  const fs::path parent = target.has_parent_path() ? target.parent_path() : fs::path(".");
  std::error_code error;
  std::vector<fs::path> found;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, error)) {
    const std::string name = (target.parent_path() / entry.path().filename()).string();
    if (name.starts_with(prefix) && name.size() == prefix.size() + kRandomPart.size() &&
        fs::is_directory(entry.symlink_status(error))) {
      found.push_back(entry.path());
    }
  }
  std::ranges::for_each(found, remove_if_abandoned);
}

fs::path make_staging_folder(const fs::path& target) {
  check_export_folder("", target);
  std::error_code status;
  if (target.has_parent_path()) fs::create_directories(target.parent_path(), status);
  if (status) fail(target, status);
  std::string name = staging_prefix(target) + std::string(kRandomPart);
  if (::mkdtemp(name.data()) == nullptr) fail(target, {errno, std::generic_category()});
  fs::permissions(name, fs::perms(0755), status);  // mkdtemp gives 0700
  return name;
}

}  // namespace

StagingFolder::StagingFolder(const fs::path& target)
    : target_(without_trailing_slash(target)),
      path_(make_staging_folder(target_)),
      lock_(lock_folder(path_)) {}

StagingFolder::~StagingFolder() {
  std::error_code ignored;  // a destructor cannot report it
  if (!path_.empty()) fs::remove_all(path_, ignored);
  if (lock_ >= 0) ::close(lock_);
}

void StagingFolder::publish() {
  sync_folder(path_.string());
  std::error_code status;
  fs::rename(path_, target_, status);
  if (status) fail(target_, status);
  path_.clear();
  sync_folder(target_.parent_path().string());
}

void check_export_folder(const std::string& option, const fs::path& target) {
  const fs::path folder = without_trailing_slash(target);
  const std::string where = (option.empty() ? "" : option + ":") + folder.string();
  std::error_code error;
  const fs::file_status status = fs::symlink_status(folder, error);
  if (fs::is_symlink(status)) {
    throw InputError(where, "is a link", "Name a folder that does not exist yet.");
  }
  if (!fs::exists(status)) {
    check_folder_can_be_made(option.empty() ? "export" : option, folder.string());
    return;
  }
  if (!fs::is_directory(status) || !fs::is_empty(folder, error) || error) {
    throw InputError(where, "exists already", "Name a folder that does not exist yet.");
  }
  if (is_mount_point(folder)) {
    throw InputError(where, "is a mount point, which no folder can replace",
                     "Name a folder in it.");
  }
  // The empty folder is replaced, so the one around it must be writable.
  const fs::path parent = fs::absolute(folder, error).parent_path();
  check_folder_can_be_made(option.empty() ? "export" : option, parent.string());
}

void prepare_export_folder(const fs::path& target_or_slash) {
  const fs::path target = without_trailing_slash(target_or_slash);
  remove_abandoned(target);
  const StagingFolder trial(target);
}

}  // namespace athanor
