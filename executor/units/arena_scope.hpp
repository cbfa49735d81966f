// SPDX-License-Identifier: Apache-2.0
// LibTorch's CPU tensors in the CPU backend's device memory.
#pragma once

namespace athanor {

class DeviceArena;

/// While it is alive on a thread, that thread's LibTorch CPU tensors come from `arena`. The first
/// one installs a hook for the whole process. A null arena changes nothing.
class ArenaScope {
 public:
  explicit ArenaScope(DeviceArena& arena) : ArenaScope(&arena) {}
  explicit ArenaScope(DeviceArena* arena);
  ~ArenaScope();
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  DeviceArena* outer_;
};

}  // namespace athanor
