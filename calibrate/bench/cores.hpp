// SPDX-License-Identifier: Apache-2.0
// Cores to measure on. Other tenants of a host use the second hardware threads of its cores: then
// some cores run at two thirds of the others' speed, and a second later other cores do.
#pragma once

#include <sched.h>

#include <vector>

namespace athanor {

/// Stands for no particular core.
inline constexpr int kAnyCore = -1;

/// Returns at most `most` of the cores that the calling thread may run on, evenly spread. Returns
/// kAnyCore alone if the system does not say which they are.
[[nodiscard]] std::vector<int> some_cores(int most);

/// Binds the calling thread to one core while it lives. Threads that start meanwhile stay on that
/// core afterwards, too. Binds nothing for kAnyCore, or if the system refuses.
class CoreBinding {
 public:
  explicit CoreBinding(int core);
  ~CoreBinding();
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

 private:
  cpu_set_t before_{};
};

}  // namespace athanor
