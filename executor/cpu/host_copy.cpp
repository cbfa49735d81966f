// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/host_copy.hpp"

#include "executor/cpu/parallel_blocks.hpp"

#include <cstring>

namespace athanor {

void host_copy(void* to, const void* from, Bytes bytes) noexcept {
  if (bytes > 0) {
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  }
}

void host_copy(void* to, const void* from, Bytes bytes, int threads) {
  parallel_blocks(bytes, threads, [&](std::int64_t begin, std::int64_t end) {
    host_copy(static_cast<std::byte*>(to) + begin, static_cast<const std::byte*>(from) + begin,
              end - begin);
  });
}

void host_clear(void* memory, Bytes bytes, int threads) {
  parallel_blocks(bytes, threads, [&](std::int64_t begin, std::int64_t end) {
    if (end > begin) {
      std::memset(static_cast<std::byte*>(memory) + begin, 0,
                  static_cast<std::size_t>(end - begin));
    }
  });
}

}  // namespace athanor
