// SPDX-License-Identifier: Apache-2.0
// The CPU backend's device memory: every byte that a GPU would hold comes from one bounded arena.
#pragma once

#include "sim/base/errors.hpp"
#include "sim/base/quantities.hpp"

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace athanor {

/// Error of a request beyond the limit. The message gives request, live bytes and limit.
class OutOfDeviceMemory : public Error {
 public:
  OutOfDeviceMemory(Bytes requested, Bytes live, Bytes limit);
};

/// Counts live and peak bytes as requested, not rounded, and refuses requests beyond the limit.
/// Blocks are 64-byte aligned. Thread-safe; outlives every block. Released blocks are kept for the
/// next request of the same size: a training step repeats its sizes, and the system clears large
/// blocks page by page. Kept and live blocks together never exceed the highest number of live bytes
/// so far.
class DeviceArena {
 public:
  explicit DeviceArena(Bytes limit = 0);  ///< 0 = no limit
  ~DeviceArena();
  DeviceArena(const DeviceArena&) = delete;
  DeviceArena& operator=(const DeviceArena&) = delete;

  [[nodiscard]] void* allocate(Bytes bytes);  ///< nullptr for 0; throws OutOfDeviceMemory
  void release(void* block) noexcept;

  [[nodiscard]] Bytes live() const noexcept;
  [[nodiscard]] Bytes peak() const noexcept;
  [[nodiscard]] Bytes limit() const noexcept { return limit_; }
  void reset_peak() noexcept;  ///< peak = live

 private:
  [[nodiscard]] void* take_kept(Bytes bytes) noexcept;
  void drop_kept(Bytes room) noexcept;

  Bytes limit_;
  mutable std::mutex mutex_;
  Bytes live_ = 0;
  Bytes peak_ = 0;
  Bytes highest_ = 0;  ///< highest live bytes ever
  Bytes kept_bytes_ = 0;
  std::map<Bytes, std::vector<void*>> kept_;  ///< released blocks by size; lists may be empty
};

/// Allocates a block that no arena counts; nullptr for 0 bytes. Only release_block() frees it.
[[nodiscard]] void* allocate_uncounted(Bytes bytes);
/// Returns a block to its arena, or an uncounted one to the system.
void release_block(void* block) noexcept;

/// Owner of one block.
class DeviceBlock {
 public:
  DeviceBlock() = default;
  DeviceBlock(DeviceArena& arena, Bytes bytes);
  ~DeviceBlock();
  DeviceBlock(DeviceBlock&& other) noexcept;
  DeviceBlock& operator=(DeviceBlock&& other) noexcept;
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] Bytes size() const noexcept { return bytes_; }

 private:
  DeviceArena* arena_ = nullptr;
  void* data_ = nullptr;
  Bytes bytes_ = 0;
};

}  // namespace athanor
