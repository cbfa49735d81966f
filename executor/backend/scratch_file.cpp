// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/scratch_file.hpp"

#include "executor/backend/host_memory.hpp"
#include "sim/base/errors.hpp"
#include "sim/model/program.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace athanor {
namespace {

/// Bytes moved by one call. Linux moves at most 2 GiB; more than this does not help.
constexpr std::size_t kLargestTransfer = 16 << 20;

[[noreturn]] void fail(const std::string& folder, const char* what, int error) {
  throw Error(fmt::format("{} a file in {}: {}", what, folder, std::strerror(error)));
}

/// Calls `transfer(done, count)`, which returns how many bytes it moved, until `bytes` are moved.
template <typename Transfer>
void move_all(const std::string& folder, const char* what, std::size_t bytes, Transfer transfer) {
  for (std::size_t done = 0; done < bytes;) {
    const ssize_t moved = transfer(done, std::min(bytes - done, kLargestTransfer));
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) fail(folder, what, moved < 0 ? errno : ENODATA);
    done += static_cast<std::size_t>(moved);
  }
}

}  // namespace

ScratchFile::ScratchFile(const std::string& folder, Bytes bytes) : folder_(folder) {
  std::string path = folder + "/.athanor-XXXXXX";
  file_.value = ::mkostemp(path.data(), O_CLOEXEC);
  if (file_.value < 0) fail(folder, "cannot create", errno);
  ::unlink(path.c_str());
  const int error = bytes > 0 ? ::posix_fallocate(file_.value, 0, bytes) : 0;
  if (error != 0) {
    fail(folder, fmt::format("cannot reserve {} for", format_bytes(bytes)).c_str(), error);
  }
  direct_ = try_direct();
}

ScratchFile::Descriptor::~Descriptor() {
  if (value >= 0) ::close(value);
}

/// Tries a read with O_DIRECT: some file systems accept the flag and then refuse to read.
bool ScratchFile::try_direct() const {
  const int flags = ::fcntl(file_.value, F_GETFL);
  if (::fcntl(file_.value, F_SETFL, flags | O_DIRECT) != 0) return false;
  const MemoryBlock block = allocate_host_memory(kFileBlock);
  if (::pread(file_.value, block.get(), static_cast<std::size_t>(kFileBlock), 0) >= 0) return true;
  ::fcntl(file_.value, F_SETFL, flags);
  return false;
}

void ScratchFile::write(Bytes offset, std::span<const std::byte> data) const {
  move_all(folder_, "cannot write", data.size(), [&](std::size_t done, std::size_t count) {
    return ::pwrite(file_.value, data.data() + done, count, offset + static_cast<Bytes>(done));
  });
  if (!direct_ && ::fdatasync(file_.value) != 0) fail(folder_, "cannot write", errno);
}

void ScratchFile::read(Bytes offset, std::span<std::byte> data) const {
  if (!direct_) {
    // A wish: where it is not granted, reading is faster.
    static_cast<void>(
        ::posix_fadvise(file_.value, offset, static_cast<Bytes>(data.size()), POSIX_FADV_DONTNEED));
  }
  move_all(folder_, "cannot read", data.size(), [&](std::size_t done, std::size_t count) {
    return ::pread(file_.value, data.data() + done, count, offset + static_cast<Bytes>(done));
  });
}

Bytes free_bytes(const std::string& folder, const std::string& option) {
  struct stat status{};
  struct statvfs system{};
  const bool is_there = ::stat(folder.c_str(), &status) == 0;
  if (!is_there || !S_ISDIR(status.st_mode) || ::statvfs(folder.c_str(), &system) != 0) {
    throw InputError(option, fmt::format("'{}' is no folder", folder),
                     "Name a folder on the disk that is to hold optimizer state.");
  }
  return static_cast<Bytes>(system.f_bavail) * static_cast<Bytes>(system.f_frsize);
}

}  // namespace athanor
