// SPDX-License-Identifier: Apache-2.0
#include "executor/io/mapped_file.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/input_file.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

namespace athanor {

bool is_there(const std::filesystem::path& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable);
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  InputFile file = open_input(path_);
  descriptor_ = std::move(file.descriptor);
  const auto size = static_cast<std::size_t>(file.size);
  if (size == 0) return;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, descriptor_.get(), 0);
  if (memory == MAP_FAILED) fail_read(path_, errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  // munmap takes a mutable pointer, though the mapping is read-only.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)),
      bytes_(std::exchange(other.bytes_, {})),
      descriptor_(std::move(other.descriptor_)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

void MappedFile::read(std::size_t offset, std::span<std::byte> to) const {
  while (!to.empty()) {
    const ssize_t count =
        ::pread(descriptor_.get(), to.data(), to.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(path_, errno);
    if (count == 0) {
      throw InputError(path_,
                       "has shrunk while it was read: it had " + std::to_string(bytes_.size()) +
                           " bytes, and byte " + std::to_string(offset) + " is not there",
                       "Give it back its content, and go on with --resume.");
    }
    offset += static_cast<std::size_t>(count);
    to = to.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace athanor
