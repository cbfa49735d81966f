// SPDX-License-Identifier: Apache-2.0
#include "executor/memory/shared_memory.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

namespace athanor {
namespace {

constexpr Bytes kPage = 4 * kKiB;
constexpr int kOpenFlags = O_NOFOLLOW | O_CLOEXEC;
constexpr mode_t kOwnerOnly = S_IRUSR | S_IWUSR;
constexpr mode_t kModeBits = 0777;

[[noreturn]] void fail(const std::string& path, const std::string& what, int error) {
  throw Error(fmt::format("{}: {}: {}", path, what, std::strerror(error)));
}

struct stat status_of(const std::string& path, int descriptor) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) fail(path, "cannot be looked at", errno);
  return status;
}

/// Returns whether the lock was got; else errno says why it was not.
bool try_lock(int descriptor, int kind, Seconds patience) {
  constexpr std::chrono::milliseconds kPause(10);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience);
  while (::flock(descriptor, kind | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK || std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

/// A descriptor that is closed at the end of the scope.
struct Opened {
  int descriptor = -1;
  Opened(const std::string& path, int access)
      : descriptor(::open(path.c_str(), access | kOpenFlags)) {
    if (descriptor < 0) fail(path, "cannot be opened", errno);
    const struct stat status = status_of(path, descriptor);
    if (!S_ISREG(status.st_mode) || status.st_uid != ::geteuid() ||
        (status.st_mode & kModeBits) != kOwnerOnly || status.st_nlink != 1) {
      ::close(descriptor);
      throw Error(path + " is no file of this user alone, and is not used");
    }
  }
  ~Opened() {
    if (descriptor >= 0) ::close(descriptor);
  }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;
};

}  // namespace

SharedMemory::SharedMemory(std::string path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

SharedMemory SharedMemory::create(const std::string& path, Bytes bytes) {
  const int descriptor = ::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | kOpenFlags, kOwnerOnly);
  if (descriptor < 0) fail(path, "cannot be created", errno);
  SharedMemory memory(path, descriptor);
  memory.lock();
  // A hole that cannot be filled would end the process with SIGBUS in the middle of a step.
  const int error = ::posix_fallocate(descriptor, 0, std::max<Bytes>(bytes, 1));
  if (error != 0) fail(path, "cannot reserve " + format_bytes(bytes), error);
  memory.bytes_ = bytes;
  return memory;
}

SharedMemory SharedMemory::open(const std::string& path) {
  Opened opened(path, O_RDWR);
  SharedMemory memory(path, std::exchange(opened.descriptor, -1));
  memory.keep(true);  // even if another process has it
  memory.lock();
  memory.bytes_ = status_of(path, memory.descriptor_).st_size;
  return memory;
}

SharedMemory::~SharedMemory() {
  if (descriptor_ < 0) return;
  if (!stays_) remove();
  ::close(descriptor_);
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(bytes_, other.bytes_);
  std::swap(stays_, other.stays_);
  return *this;
}

void SharedMemory::lock() const {
  if (try_lock(descriptor_, LOCK_EX, kEndOfProcess)) return;
  if (errno == EWOULDBLOCK) throw Error(path_ + " is in use by a living process");
  fail(path_, "cannot be locked", errno);
}

MemoryBlock SharedMemory::map(Bytes offset, Bytes bytes) const {
  if (bytes == 0) return nullptr;
  if (offset % kPage != 0 || offset + bytes > whole_pages(bytes_)) {
    throw Error(fmt::format("{} has {} bytes, too few for this plan", path_, bytes_));
  }
  const auto mapped = static_cast<std::size_t>(bytes);
  void* const memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor_, offset);
  if (memory == MAP_FAILED) fail(path_, "cannot be mapped", errno);
  ::madvise(memory, mapped, MADV_HUGEPAGE);  // a wish, which few systems grant
  ::madvise(memory, mapped, MADV_DONTDUMP);  // a core file would hold the model
  return {static_cast<std::byte*>(memory), [mapped](std::byte* data) { ::munmap(data, mapped); }};
}

void SharedMemory::remove() const noexcept { ::unlink(path_.c_str()); }

bool is_held(const std::string& path, Seconds patience) {
  const Opened opened(path, O_RDONLY);
  return !try_lock(opened.descriptor, LOCK_SH, patience) && errno == EWOULDBLOCK;
}

std::string read_start(const std::string& path, Bytes bytes) {
  const Opened opened(path, O_RDONLY);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = ::pread(opened.descriptor, text.data() + done, text.size() - done,
                                  static_cast<off_t>(done));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path, "cannot be read", errno);
    if (count == 0) break;
    done += static_cast<std::size_t>(count);
  }
  text.resize(done);
  return text;
}

Bytes whole_pages(Bytes bytes) noexcept { return round_up(bytes, kPage); }

void check_shared_room(const std::string& folder, Bytes bytes) {
  struct statvfs system{};
  if (::statvfs(folder.c_str(), &system) != 0) {
    throw InputError(folder, fmt::format("is needed for snapshots: {}", std::strerror(errno)),
                     "Mount a tmpfs there, or train without --snapshot.");
  }
  const auto block = static_cast<Bytes>(system.f_frsize);
  const Bytes room = static_cast<Bytes>(system.f_bavail) * block;
  if (bytes <= room) return;
  const Bytes needed = static_cast<Bytes>(system.f_blocks) * block + bytes - room;
  throw InputError(
      folder,
      fmt::format("has {} left, and the state of this run that outlives its processes takes {}",
                  format_bytes(room), format_bytes(bytes)),
      fmt::format("Free what killed runs have left (athanor clean), enlarge it (mount -o "
                  "remount,size={}M {}; docker run --shm-size={}m), or train without --snapshot.",
                  (needed + kMiB - 1) / kMiB, folder, (needed + kMiB - 1) / kMiB));
}

}  // namespace athanor
