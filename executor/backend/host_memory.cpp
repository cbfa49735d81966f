// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/host_memory.hpp"

#include "executor/cpu/host_copy.hpp"
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

}  // namespace

int memory_threads() {
  constexpr int kMost = 16;
  return std::min(kMost, usable_cores());
}

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
  host_clear(block.get(), static_cast<Bytes>(mapped), memory_threads());
  return block;
}

}  // namespace athanor
