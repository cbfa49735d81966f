// SPDX-License-Identifier: Apache-2.0
#include "calibrate/cuda/rotating_host_buffer.hpp"

#include "calibrate/cuda/activities.hpp"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

namespace athanor {
namespace {

constexpr Bytes kAlignment = 256;

}  // namespace

PinnedMemory random_pinned_memory(int device, Bytes bytes) {
  constexpr Bytes kDrawn = 64 * kMiB;  // repeated: power depends on the values, not on their places
  auto memory = std::make_shared<const cuda::PinnedBlock>(bytes);
  const at::Tensor drawn = random_bf16(device, std::min(bytes, kDrawn));
  const at::Tensor all = at::from_blob(memory->data(), {bytes / drawn.element_size()},
                                       drawn.options().device(at::kCPU));
  for (at::Tensor& part : all.split(drawn.numel())) part.copy_(drawn.narrow(0, 0, part.numel()));
  return memory;
}

RotatingHostBuffer::RotatingHostBuffer(PinnedMemory memory, Bytes start)
    : memory_(std::move(memory)), offsets_(memory_->size(), kAlignment, start) {}

std::byte* RotatingHostBuffer::next(Bytes bytes) { return memory_->data() + offsets_.next(bytes); }

}  // namespace athanor
