// SPDX-License-Identifier: Apache-2.0
#include "executor/units/arena_scope.hpp"

#include "executor/backend/device_arena.hpp"

#include <c10/core/CPUAllocator.h>

namespace athanor {

namespace {

/// The calling thread's arena; nullptr outside every ArenaScope.
DeviceArena*& current_arena() noexcept {
  thread_local DeviceArena* arena = nullptr;
  return arena;
}

/// Allocates from the calling thread's arena. Every block knows its arena, so one deleter serves
/// all blocks on any thread, and a block's address is its context. LibTorch's kernels take scratch
/// memory by raw_allocate, which needs both.
class ArenaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t size) override {
    DeviceArena* arena = current_arena();
    const auto bytes = static_cast<Bytes>(size);
    void* block = arena != nullptr ? arena->allocate(bytes) : allocate_uncounted(bytes);
    return {block, block, &release_block, c10::Device(c10::kCPU)};
  }

  [[nodiscard]] c10::DeleterFnPtr raw_deleter() const override { return &release_block; }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

/// Puts ArenaAllocator in front of LibTorch's own allocator, once. There is one per process.
void install_allocator() {
  static ArenaAllocator allocator;
  [[maybe_unused]] static const bool installed = [] {
    c10::SetCPUAllocator(&allocator, /*priority=*/1);
    return true;
  }();
}

}  // namespace

ArenaScope::ArenaScope(DeviceArena* arena) : outer_(current_arena()) {
  if (arena == nullptr) return;
  install_allocator();
  current_arena() = arena;
}

ArenaScope::~ArenaScope() { current_arena() = outer_; }

}  // namespace athanor
