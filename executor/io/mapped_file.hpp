// SPDX-License-Identifier: Apache-2.0
// A whole file as read-only memory.
#pragma once

#include "sim/base/file_descriptor.hpp"

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

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

/// Calls use(piece) for `size` bytes in their order. read(offset, to) gives each piece, which has
/// whole words, but for the last.
template <typename Read, typename Use>
void read_in_pieces(std::size_t size, const Read& read, const Use& use) {
  constexpr std::size_t kPiece = 1 << 20;
  std::vector<std::byte> piece;
  for (std::size_t done = 0; done < size; done += piece.size()) {
    piece.resize(std::min(kPiece, size - done));
    read(done, std::span(piece));
    use(std::span<const std::byte>(piece));
  }
}

}  // namespace athanor
