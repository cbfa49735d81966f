// SPDX-License-Identifier: Apache-2.0
#include "executor/io/output_folder.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <map>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;

std::string reason_of(int error) { return std::generic_category().message(error); }

struct Disk {
  Bytes free = 0, needed = 0;
  std::string contents;  ///< "a checkpoint (1 GiB), .."
};

}  // namespace

fs::path nearest_existing(const fs::path& path) {
  std::error_code error;
  fs::path existing = fs::absolute(path, error);
  while (!fs::exists(existing, error) && existing.has_relative_path()) {
    existing = existing.parent_path();
  }
  return existing;
}

void check_folder_can_be_made(const std::string& option, const std::string& path) {
  const fs::path existing = nearest_existing(path);
  std::error_code error;
  if (!fs::is_directory(existing, error)) {
    throw InputError(option + ":" + path, existing.string() + " is no folder",
                     "Name another folder.");
  }
  if (::access(existing.c_str(), W_OK | X_OK) != 0) {
    throw InputError(option + ":" + path,
                     existing.string() + " cannot be written: " + reason_of(errno),
                     "Name another folder.");
  }
}

void check_room(const std::vector<DiskNeed>& needs, const std::string& hint) {
  std::map<dev_t, Disk> disks;
  for (const DiskNeed& need : needs) {
    const fs::path existing = nearest_existing(need.path);
    struct stat status{};
    struct statvfs system{};
    if (::stat(existing.c_str(), &status) != 0 || ::statvfs(existing.c_str(), &system) != 0) {
      throw InputError(need.option + ":" + need.path.string(),
                       "cannot be looked at: " + reason_of(errno), "Name another folder.");
    }
    Disk& disk = disks[status.st_dev];
    disk.free = static_cast<Bytes>(system.f_bavail) * static_cast<Bytes>(system.f_frsize);
    disk.needed += need.bytes;
    disk.contents += fmt::format("{}{} ({})", disk.contents.empty() ? "" : ", ", need.purpose,
                                 format_bytes(need.bytes));
    if (disk.needed <= disk.free) continue;
    throw InputError(need.option + ":" + need.path.string(),
                     fmt::format("the disk has {} left, too little for {}", format_bytes(disk.free),
                                 disk.contents),
                     hint);
  }
}

void sync_folder(const std::string& folder) {
  const int descriptor =
      ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  // EINVAL: the file system has no such operation.
  const bool synced = descriptor >= 0 && (::fsync(descriptor) == 0 || errno == EINVAL);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (!synced) throw Error(fmt::format("{}: cannot be synced: {}", folder, reason_of(error)));
}

}  // namespace athanor
