// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/host_memory.hpp"

#include "executor/cpu/parallel_blocks.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/host.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

namespace athanor {
namespace {

constexpr Bytes kHugePage = 2 * kMiB;
constexpr Bytes kPage = 4 * kKiB;
/// Clearing pages is bound by memory: more threads than this do not help.
constexpr int kMostThreads = 16;

}  // namespace

MemoryBlock allocate_host_memory(Bytes bytes) {
  if (bytes == 0) return nullptr;
  const auto mapped =
      static_cast<std::size_t>(round_up(bytes, bytes < kHugePage ? kPage : kHugePage));
  void* const memory =
      ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    throw Error("cannot allocate " + format_bytes(bytes) +
                " of host memory: " + std::strerror(errno));
  }
  MemoryBlock block(static_cast<std::byte*>(memory),
                    [mapped](std::byte* data) { ::munmap(data, mapped); });
  ::madvise(memory, mapped, MADV_HUGEPAGE);  // a wish: small pages serve as well
  const int threads = std::min(kMostThreads, usable_cores());
  parallel_blocks(static_cast<std::int64_t>(mapped), threads,
                  [data = block.get()](std::int64_t begin, std::int64_t end) {
                    std::memset(data + begin, 0, static_cast<std::size_t>(end - begin));
                  });
  return block;
}

}  // namespace athanor
