// SPDX-License-Identifier: Apache-2.0
// Each block is preceded by a header of one cache line that stores its size.
#include "executor/lanes/device_arena.hpp"

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <new>
#include <utility>

namespace athanor {
namespace {

constexpr std::size_t kAlignment = 64;

struct alignas(kAlignment) BlockHeader {
  Bytes bytes = 0;
};
static_assert(sizeof(BlockHeader) == kAlignment);

BlockHeader* header_of(void* block) noexcept { return static_cast<BlockHeader*>(block) - 1; }

std::string out_of_memory_text(Bytes requested, Bytes live, Bytes limit) {
  return "out of device memory: " + format_bytes(requested) + " requested, " + format_bytes(live) +
         " live, limit " + format_bytes(limit);
}

}  // namespace

OutOfDeviceMemory::OutOfDeviceMemory(Bytes requested, Bytes live, Bytes limit)
    : Error(out_of_memory_text(requested, live, limit)) {}

DeviceArena::DeviceArena(Bytes limit) : limit_(limit) {}

DeviceArena::~DeviceArena() { assert(live_ == 0 && "a block outlives its arena"); }

void* DeviceArena::allocate(Bytes bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  {
    const std::lock_guard lock(mutex_);
    if (limit_ > 0 && bytes > limit_ - live_) {
      throw OutOfDeviceMemory(bytes, live_, limit_);
    }
    live_ += bytes;
    peak_ = std::max(peak_, live_);
  }
  const std::size_t size =
      static_cast<std::size_t>(round_up(bytes, kAlignment)) + sizeof(BlockHeader);
  void* const raw = std::aligned_alloc(kAlignment, size);
  if (raw == nullptr) {
    const std::lock_guard lock(mutex_);
    live_ -= bytes;
    throw std::bad_alloc();
  }
  return new (raw) BlockHeader{bytes} + 1;
}

void DeviceArena::release(void* block) noexcept {
  if (block == nullptr) {
    return;
  }
  BlockHeader* const header = header_of(block);
  {
    const std::lock_guard lock(mutex_);
    live_ -= header->bytes;
  }
  std::free(header);
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
