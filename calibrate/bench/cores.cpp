// SPDX-License-Identifier: Apache-2.0
#include "calibrate/bench/cores.hpp"

#include <algorithm>
#include <cstddef>

namespace athanor {

std::vector<int> some_cores(int most) {
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (sched_getaffinity(0, sizeof usable, &usable) != 0) return {kAnyCore};
  std::vector<int> all;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &usable)) all.push_back(core);
  }
  const auto count = std::min(static_cast<std::size_t>(std::max(0, most)), all.size());
  std::vector<int> some;
  for (std::size_t i = 0; i < count; ++i) some.push_back(all[i * all.size() / count]);
  return some;
}

CoreBinding::CoreBinding(int core) {
  CPU_ZERO(&before_);
  if (core == kAnyCore || sched_getaffinity(0, sizeof before_, &before_) != 0) return;
  cpu_set_t own;
  CPU_ZERO(&own);
  CPU_SET(static_cast<std::size_t>(core), &own);
  static_cast<void>(sched_setaffinity(0, sizeof own, &own));
}

CoreBinding::~CoreBinding() {
  if (CPU_COUNT(&before_) > 0) static_cast<void>(sched_setaffinity(0, sizeof before_, &before_));
}

}  // namespace athanor
