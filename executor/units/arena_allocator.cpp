// SPDX-License-Identifier: Apache-2.0
// LibTorch's CPU allocations on threads with an ArenaScope come from that scope's arena.
#include "executor/lanes/device_arena.hpp"
#include "executor/units/unit_runner.hpp"

#include <c10/core/CPUAllocator.h>

#include <memory>

namespace athanor {

namespace {

/// One arena block that a tensor owns. Any thread may free it.
struct ArenaBlock {
  DeviceArena* arena;
  void* data;
};

void release_block(void* context) noexcept {
  const std::unique_ptr<ArenaBlock> block(static_cast<ArenaBlock*>(context));
  block->arena->release(block->data);
}

/// The calling thread's arena; nullptr outside every ArenaScope.
DeviceArena*& current_arena() noexcept {
  thread_local DeviceArena* arena = nullptr;
  return arena;
}

class ArenaAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(std::size_t bytes) override {
    DeviceArena* arena = current_arena();
    if (arena == nullptr) return fallback_->allocate(bytes);
    auto block = std::make_unique<ArenaBlock>(ArenaBlock{arena, nullptr});
    block->data = arena->allocate(static_cast<Bytes>(bytes));
    void* data = block->data;
    return {data, block.release(), &release_block, c10::Device(c10::kCPU)};
  }

  void copy_data(void* to, const void* from, std::size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }

 private:
  c10::Allocator* fallback_ = c10::GetDefaultCPUAllocator();
};

/// LibTorch keeps one allocator per process; this installs ours in front of its own, once.
void install_allocator() {
  static ArenaAllocator allocator;
  [[maybe_unused]] static const bool installed = [] {
    c10::SetCPUAllocator(&allocator, /*priority=*/1);
    return true;
  }();
}

}  // namespace

ArenaScope::ArenaScope(DeviceArena& arena) : outer_(current_arena()) {
  install_allocator();
  current_arena() = &arena;
}

ArenaScope::~ArenaScope() { current_arena() = outer_; }

}  // namespace athanor
