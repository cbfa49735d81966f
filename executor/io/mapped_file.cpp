// SPDX-License-Identifier: Apache-2.0
#include "executor/io/mapped_file.hpp"

#include "sim/base/errors.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace athanor {

namespace {

[[noreturn]] void fail(const std::string& path, int error) {
  throw InputError(path, "cannot be read: " + std::generic_category().message(error),
                   "Check the path and its permissions.");
}

/// Maps an open regular file; an empty file has empty memory.
std::span<const std::byte> map(int descriptor, const std::string& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) fail(path, errno);
  if (!S_ISREG(status.st_mode)) {
    throw InputError(path, "is not a regular file", "Give the path of a file.");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  if (size == 0) return {};
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor, 0);
  if (memory == MAP_FAILED) fail(path, errno);
  return {static_cast<const std::byte*>(memory), size};
}

}  // namespace

bool is_there(const std::filesystem::path& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable);
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  // Without O_NONBLOCK a named pipe would wait for a writer that never comes.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail(path_, errno);
  try {
    bytes_ = map(descriptor_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

MappedFile::~MappedFile() {
  // munmap takes a mutable pointer, though the mapping is read-only.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  if (descriptor_ >= 0) ::close(descriptor_);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})),
      descriptor_(std::exchange(other.descriptor_, -1)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void MappedFile::read(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count = ::pread(descriptor_, to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail(path_, errno);
    if (count == 0) {
      throw InputError(path_,
                       "has shrunk while it was read: it had " + std::to_string(bytes_.size()) +
                           " bytes and ends at " + std::to_string(offset),
                       "Give it back its content, and go on with --resume.");
    }
    offset += static_cast<std::size_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace athanor
