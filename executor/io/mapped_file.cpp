// SPDX-License-Identifier: Apache-2.0
#include "executor/io/mapped_file.hpp"

#include "sim/base/input_file.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <filesystem>
#include <system_error>
#include <utility>

namespace athanor {

bool is_there(const std::filesystem::path& path) {
  std::error_code unreadable;
  return std::filesystem::exists(path, unreadable);
}

MappedFile::MappedFile(std::string path) : path_(std::move(path)) {
  const InputFile file = open_input(path_);
  const auto size = static_cast<std::size_t>(file.size);
  if (size == 0) return;
  void* memory = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor.get(), 0);
  if (memory == MAP_FAILED) fail_read(path_, errno);
  bytes_ = {static_cast<const std::byte*>(memory), size};
}

MappedFile::~MappedFile() {
  // munmap takes a mutable pointer, though the mapping is read-only.
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : path_(std::move(other.path_)), bytes_(std::exchange(other.bytes_, {})) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

}  // namespace athanor
