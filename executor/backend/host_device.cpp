// SPDX-License-Identifier: Apache-2.0
#include "executor/backend/host_device.hpp"

#include "executor/cpu/host_copy.hpp"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

namespace athanor {
namespace {

std::size_t size(std::int64_t elements) { return static_cast<std::size_t>(elements); }

template <typename Function>
void with_type(const void* values, DataType dtype, std::int64_t elements, Function&& function) {
  if (dtype == DataType::Float32) {
    function(std::span(static_cast<const float*>(values), size(elements)));
  } else {
    function(std::span(static_cast<const BFloat16Bits*>(values), size(elements)));
  }
}

}  // namespace

HostDevice::HostDevice(Bytes memory_limit) : arena_(memory_limit) {}

MemoryBlock HostDevice::allocate(Bytes bytes) {
  MemoryBlock block(static_cast<std::byte*>(arena_.allocate(bytes)),
                    [](std::byte* data) { release_block(data); });
  if (block) std::memset(block.get(), 0, size(bytes));
  return block;
}

MemoryBlock HostDevice::allocate_uncounted(Bytes bytes) { return allocate_host_memory(bytes); }

MemoryBlock HostDevice::allocate_pinned(Bytes bytes) { return allocate_host_memory(bytes); }

MemoryBlock HostDevice::pin(MemoryBlock memory, Bytes /*bytes*/) { return memory; }

void HostDevice::copy_now(void* to, const void* from, Bytes bytes) {
  host_copy(to, from, bytes, memory_threads());
}

void HostDevice::clear_now(void* memory, Bytes bytes) {
  host_clear(memory, bytes, memory_threads());
}

void HostDevice::copy(Lane /*lane*/, void* to, const void* from, Bytes bytes) {
  host_copy(to, from, bytes);
}

void HostDevice::clear(Lane /*lane*/, void* memory, Bytes bytes) {
  if (bytes > 0) std::memset(memory, 0, size(bytes));
}

void HostDevice::accumulate(Lane /*lane*/, float* sum, const void* addend, DataType dtype,
                            std::int64_t elements, bool add) {
  const std::span<float> total(sum, size(elements));
  if (!add) std::fill(total.begin(), total.end(), 0.0F);
  with_type(addend, dtype, elements, [&](auto values) { athanor::accumulate(total, values); });
}

void HostDevice::adam(Lane /*lane*/, const AdamWork& work) {
  if (!work.segments.empty()) update_elements(work, 0, work.segments.back().end);
}

void update_elements(const AdamWork& work, std::int64_t begin, std::int64_t end) {
  AdamCoefficients coefficients = work.coefficients;
  coefficients.gradient_scale = *work.gradient_scale;
  if (work.only_if_scaled && coefficients.gradient_scale == 1.0F) return;
  if (work.to.has_int8_moments()) {
    assert(begin == 0 && (work.segments.empty() || end >= work.segments.back().end));
    with_type(work.gradient, work.gradient_dtype, end, [&](auto gradient) {
      adamw_in_blocks(work.from, work.to, gradient, work.segments, coefficients, work.threads,
                      work.old_parameters);
    });
    return;
  }
  for (AdamSegment segment : work.segments) {
    segment.begin = std::max(segment.begin, begin);
    segment.end = std::min(segment.end, end);
    if (segment.begin >= segment.end) continue;
    coefficients.weight_decay = segment.decays ? work.coefficients.weight_decay : 0.0F;
    const AdamStateView from = work.from.starting_at(segment.begin);
    const AdamStateView to = work.to.starting_at(segment.begin);
    BFloat16Bits* const old_parameters =
        work.old_parameters == nullptr ? nullptr : work.old_parameters + segment.begin;
    with_type(work.gradient, work.gradient_dtype, segment.end, [&](auto all) {
      const auto gradient = all.subspan(size(segment.begin));
      if (from == to) return adamw(to, gradient, coefficients, work.threads);
      adamw_out_of_place(from, to, gradient, coefficients, work.threads, old_parameters);
    });
  }
}

void HostDevice::square_sum(Lane /*lane*/, const void* values, DataType dtype,
                            std::int64_t elements, int threads, ExactSum* result) {
  with_type(values, dtype, elements,
            [&](auto all) { *result = athanor::square_sum(all, threads); });
}

void HostDevice::sum(Lane /*lane*/, std::span<const ExactSum> values, ExactSum* result) {
  ExactSum total;
  for (const ExactSum& value : values) total.add(value);
  *result = total;
}

void HostDevice::clip(Lane lane, std::span<const ExactSum> square_sums, float limit,
                      ClippingResult* result) {
  ExactSum total;
  sum(lane, square_sums, &total);
  result->norm = static_cast<float>(std::sqrt(total.high + total.low));
  result->scale = std::min(1.0F, limit / (result->norm + kNormEpsilon));
}

}  // namespace athanor
