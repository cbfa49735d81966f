// SPDX-License-Identifier: Apache-2.0
#include "executor/run/host_block.hpp"

#include "sim/model/errors.hpp"

#include <cstdlib>
#include <cstring>

namespace athanor {
namespace {
constexpr std::size_t kPage = 4096;
}  // namespace

HostBlock::HostBlock(Bytes bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const auto rounded = static_cast<std::size_t>(round_up(bytes, kPage));
  data_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, rounded)));
  if (!data_) throw Error("cannot allocate " + format_bytes(bytes) + " of host memory");
  std::memset(data_.get(), 0, rounded);
}

void HostBlock::Free::operator()(std::byte* block) const noexcept { std::free(block); }

}  // namespace athanor
