// SPDX-License-Identifier: Apache-2.0
#include "sim/lowering/gradient_pool.hpp"

#include <utility>

namespace athanor {

std::int32_t GradientPool::held_by(Holder holder) const {
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].holder == holder) return static_cast<std::int32_t>(i);
  }
  return -1;
}

std::int32_t GradientPool::acquire(Holder holder) {
  const auto drained_at = [](const Buffer& buffer) {
    return buffer.drained_by.empty() ? -1 : buffer.drained_by.back();
  };
  std::int32_t best = -1;
  for (std::size_t i = 0; i < buffers_.size(); ++i) {
    if (buffers_[i].holder.unit >= 0) continue;
    if (best < 0 || drained_at(buffers_[i]) < drained_at((*this)[best])) {
      best = static_cast<std::int32_t>(i);
    }
  }
  if (best >= 0) (*this)[best].holder = holder;
  return best;
}

void GradientPool::release(Holder holder, std::vector<std::int32_t> operations) {
  Buffer& buffer = (*this)[held_by(holder)];
  buffer.holder = {};
  buffer.drained_by = std::move(operations);
}

}  // namespace athanor
