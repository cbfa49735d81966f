// SPDX-License-Identifier: Apache-2.0
// A file for data that does not fit into memory, read and written past the page cache.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstddef>
#include <span>
#include <string>

namespace athanor {

/// An open file without a name, which vanishes with its process, however that ends. Memory, offsets
/// and sizes of reads and writes are whole blocks (kFileBlock). Any thread may call. The file uses
/// O_DIRECT where the file system has it. Elsewhere a write waits for the disk, and a read first
/// drops its range from the cache, so that it takes as long every time and fills no memory. Throws
/// Error, which names the folder.
class ScratchFile {
 public:
  /// Reserves `bytes` in `folder`, so that a full disk is noticed now.
  ScratchFile(const std::string& folder, Bytes bytes);
  /// Whether the file goes past the page cache (O_DIRECT).
  [[nodiscard]] bool direct() const noexcept { return direct_; }
  void write(Bytes offset, std::span<const std::byte> data) const;
  void read(Bytes offset, std::span<std::byte> data) const;

 private:
  struct Descriptor {
    int value = -1;
    Descriptor() = default;
    ~Descriptor();
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;
  };
  [[nodiscard]] bool try_direct() const;

  std::string folder_;
  Descriptor file_;
  bool direct_ = false;
};

/// Returns the bytes that this user may still write into `folder`. Throws InputError, which names
/// `option`, where that is no folder.
[[nodiscard]] Bytes free_bytes(const std::string& folder, const std::string& option);

}  // namespace athanor
