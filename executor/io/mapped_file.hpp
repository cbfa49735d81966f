// SPDX-License-Identifier: Apache-2.0
// A whole file as read-only memory.
#pragma once

#include "sim/base/file_descriptor.hpp"

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>

namespace athanor {

/// Whether something exists at `path`. False when that cannot be told: opening the file then says
/// why.
[[nodiscard]] bool is_there(const std::filesystem::path& path);

/// A mapped file. Throws InputError when it cannot be opened or is no regular file.
class MappedFile {
 public:
  explicit MappedFile(std::string path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  /// The mapping. A page behind the end of a file that has shrunk ends the process, so what is read
  /// for hours is read by read().
  [[nodiscard]] std::span<const std::byte> bytes() const noexcept { return bytes_; }
  /// Reads `to.size()` bytes from `offset` on. Throws InputError when the file has shrunk.
  void read(std::size_t offset, std::span<std::byte> to) const;

 private:
  std::string path_;
  std::span<const std::byte> bytes_;
  FileDescriptor descriptor_{-1};
};

}  // namespace athanor
