// SPDX-License-Identifier: Apache-2.0
// Host memory that outlives the process that fills it: a file of a file system in memory. A process
// that is killed leaves it as it was at its last instruction.
#pragma once

#include "executor/backend/host_memory.hpp"
#include "sim/base/quantities.hpp"

#include <string>

namespace athanor {

/// Folder of the machine's file system in memory.
inline constexpr const char* kSharedMemoryFolder = "/dev/shm";

/// One file of shared memory, which this process alone uses: it holds a lock that ends with the
/// process. Only the user that made the file can read it. A file that is worth keeping stays until
/// remove() is called.
class SharedMemory {
 public:
  /// Creates a file of zeros, all of which is reserved. Throws Error where the path is taken or
  /// there is no room.
  [[nodiscard]] static SharedMemory create(const std::string& path, Bytes bytes);
  /// Opens the file of a process that has ended. Throws Error where there is none, it is no file of
  /// this user alone, or a living process holds it.
  [[nodiscard]] static SharedMemory open(const std::string& path);
  ~SharedMemory();
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;

  [[nodiscard]] const std::string& path() const noexcept { return path_; }
  [[nodiscard]] Bytes bytes() const noexcept { return bytes_; }
  /// Maps a part that starts at a page. The block may outlive this object. Throws Error.
  [[nodiscard]] MemoryBlock map(Bytes offset, Bytes bytes) const;
  /// Says whether the file stays when this object ends: a new one does not, an old one does.
  void keep(bool stays) noexcept { stays_ = stays; }
  /// Removes the file's name: its memory is freed when nothing maps it any more.
  void remove() const noexcept;

 private:
  SharedMemory(std::string path, int descriptor);
  void lock() const;

  std::string path_;
  int descriptor_ = -1;
  Bytes bytes_ = 0;
  bool stays_ = false;
};

/// Whether a living process holds the file. One that is just ending gets `patience` to let go of
/// it. Throws Error where it is no file of this user alone.
[[nodiscard]] bool is_held(const std::string& path, Seconds patience = 0);

/// Time in which a process that was killed gives back its memory and its locks.
inline constexpr Seconds kEndOfProcess = 3;

/// Reads up to `bytes` from the start of a file of shared memory. Throws Error where other users
/// may use it.
[[nodiscard]] std::string read_start(const std::string& path, Bytes bytes);

/// Returns `bytes` in whole pages.
[[nodiscard]] Bytes whole_pages(Bytes bytes) noexcept;

/// Throws InputError where `folder`, a file system in memory, has less room than `bytes`. The
/// message says how much is missing and how to enlarge it.
void check_shared_room(const std::string& folder, Bytes bytes);

}  // namespace athanor
