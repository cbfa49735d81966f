// SPDX-License-Identifier: Apache-2.0
// Measuring on cores of one's choice: where other tenants of a host use the second hardware threads
// of its cores, some cores run at two thirds of the others' speed, and others a second later.
#pragma once

#include <sched.h>

#include <vector>

namespace athanor {

inline constexpr int kAnyCore = -1;

/// At most `most` of the cores that the calling thread may run on, evenly spread; kAnyCore alone
/// where the system does not say.
[[nodiscard]] std::vector<int> some_cores(int most);

/// While it lives, the calling thread runs on one core, and so do the threads that it starts, also
/// afterwards. With kAnyCore, and where the system refuses, they run anywhere.
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
