// SPDX-License-Identifier: Apache-2.0
// Each block is preceded by a header of one cache line that stores its size and its arena.
#include "executor/backend/device_arena.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <iterator>
#include <new>
#include <utility>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) static_cast<void>(0)
#define ASAN_UNPOISON_MEMORY_REGION(address, size) static_cast<void>(0)
#endif

namespace athanor {
namespace {

constexpr std::size_t kAlignment = 64;

struct alignas(kAlignment) BlockHeader {
  Bytes bytes = 0;
  DeviceArena* arena = nullptr;  ///< null: nobody counts the block
};
static_assert(sizeof(BlockHeader) == kAlignment);

BlockHeader* header_of(void* block) noexcept { return static_cast<BlockHeader*>(block) - 1; }

void* new_block(Bytes bytes, DeviceArena* arena) {
  const std::size_t size =
      static_cast<std::size_t>(round_up(bytes, kAlignment)) + sizeof(BlockHeader);
  void* const raw = std::aligned_alloc(kAlignment, size);
  if (raw == nullptr) {
    throw std::bad_alloc();
  }
  return new (raw) BlockHeader{bytes, arena} + 1;
}

std::string out_of_memory_text(Bytes requested, Bytes live, Bytes limit) {
  return "out of device memory: " + format_bytes(requested) + " requested, " + format_bytes(live) +
         " live, limit " + format_bytes(limit);
}

}  // namespace

OutOfDeviceMemory::OutOfDeviceMemory(Bytes requested, Bytes live, Bytes limit)
    : Error(out_of_memory_text(requested, live, limit)) {}

DeviceArena::DeviceArena(Bytes limit) : limit_(limit) {}

DeviceArena::~DeviceArena() {
  assert(live_ == 0 && "a block outlives its arena");
  drop_kept(0);
}

void* DeviceArena::allocate(Bytes bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  const std::lock_guard lock(mutex_);
  if (limit_ > 0 && bytes > limit_ - live_) {
    throw OutOfDeviceMemory(bytes, live_, limit_);
  }
  void* block = take_kept(bytes);
  if (block == nullptr) {
    drop_kept(std::max(highest_, live_ + bytes) - live_ - bytes);
    block = new_block(bytes, this);
  }
  live_ += bytes;
  peak_ = std::max(peak_, live_);
  highest_ = std::max(highest_, live_);
  return block;
}

void DeviceArena::release(void* block) noexcept {
  if (block == nullptr) {
    return;
  }
  const std::lock_guard lock(mutex_);
  const Bytes bytes = header_of(block)->bytes;
  live_ -= bytes;
  try {
    kept_[bytes].push_back(block);
    kept_bytes_ += bytes;
    ASAN_POISON_MEMORY_REGION(block, static_cast<std::size_t>(bytes));
  } catch (const std::bad_alloc&) {
    std::free(header_of(block));
  }
}

void* DeviceArena::take_kept(Bytes bytes) noexcept {
  const auto found = kept_.find(bytes);
  if (found == kept_.end() || found->second.empty()) {
    return nullptr;
  }
  void* const block = found->second.back();
  found->second.pop_back();
  kept_bytes_ -= bytes;
  ASAN_UNPOISON_MEMORY_REGION(block, static_cast<std::size_t>(bytes));
  return block;
}

/// Frees kept blocks, the largest first, until at most `room` bytes are kept.
void DeviceArena::drop_kept(Bytes room) noexcept {
  while (kept_bytes_ > room) {
    const auto largest = std::prev(kept_.end());
    if (void* const block = take_kept(largest->first)) {
      std::free(header_of(block));
    } else {
      kept_.erase(largest);
    }
  }
}

void* allocate_uncounted(Bytes bytes) { return bytes == 0 ? nullptr : new_block(bytes, nullptr); }

void release_block(void* block) noexcept {
  if (block == nullptr) {
    return;
  }
  BlockHeader* const header = header_of(block);
  if (header->arena != nullptr) {
    header->arena->release(block);
  } else {
    std::free(header);
  }
}

Bytes DeviceArena::live() const noexcept {
  const std::lock_guard lock(mutex_);
  return live_;
}

Bytes DeviceArena::peak() const noexcept {
  const std::lock_guard lock(mutex_);
  return peak_;
}

void DeviceArena::reset_peak() noexcept {
  const std::lock_guard lock(mutex_);
  peak_ = live_;
}

DeviceBlock::DeviceBlock(DeviceArena& arena, Bytes bytes)
    : arena_(&arena), data_(arena.allocate(bytes)), bytes_(bytes) {}

DeviceBlock::~DeviceBlock() {
  if (arena_ != nullptr) {
    arena_->release(data_);
  }
}

DeviceBlock::DeviceBlock(DeviceBlock&& other) noexcept
    : arena_(std::exchange(other.arena_, nullptr)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)) {}

DeviceBlock& DeviceBlock::operator=(DeviceBlock&& other) noexcept {
  DeviceBlock taken(std::move(other));
  std::swap(arena_, taken.arena_);
  std::swap(data_, taken.data_);
  std::swap(bytes_, taken.bytes_);
  return *this;
}

}  // namespace athanor
