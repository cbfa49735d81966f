// SPDX-License-Identifier: Apache-2.0
// Owner of an open file.
#pragma once

#include <unistd.h>

#include <utility>

namespace athanor {

class FileDescriptor {
 public:
  explicit FileDescriptor(int descriptor) noexcept : descriptor_(descriptor) {}
  ~FileDescriptor() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  FileDescriptor(const FileDescriptor&) = delete;
  FileDescriptor& operator=(const FileDescriptor&) = delete;
  FileDescriptor(FileDescriptor&& other) noexcept : descriptor_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }

  [[nodiscard]] bool valid() const noexcept { return descriptor_ >= 0; }
  [[nodiscard]] int get() const noexcept { return descriptor_; }
  /// Hands the file to the caller, who closes it.
  [[nodiscard]] int release() noexcept { return std::exchange(descriptor_, -1); }
  /// Closes the file. Some file systems report a failed write only here.
  [[nodiscard]] bool close() noexcept { return ::close(release()) == 0; }

 private:
  int descriptor_;
};

}  // namespace athanor
