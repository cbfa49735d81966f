// SPDX-License-Identifier: Apache-2.0
#include "calibrate/host_updates.hpp"

#include "calibrate/curves.hpp"

#include <algorithm>
#include <set>
#include <span>
#include <thread>

namespace athanor {
namespace {

constexpr std::int64_t kAlignment = 64;
/// A thread updates a few hundred million parameters a second at best.
constexpr std::int64_t kElementsPerThread = 1 << 23;

int filling_threads() {
  return static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
}

}  // namespace

HostUpdates::HostUpdates(std::int64_t length) : buffers_(std::make_shared<Buffers>()) {
  Buffers& buffers = *buffers_;
  const auto size = static_cast<std::size_t>(length);
  buffers.master = random_floats(length, 1);
  buffers.first.resize(size);
  buffers.second.resize(size);
  buffers.gradient.resize(size);
  buffers.rounded.resize(size);
  convert_to_bf16(buffers.master, buffers.gradient, filling_threads());
}

std::int64_t HostUpdates::Buffers::next_window(std::int64_t elements) {
  const std::int64_t start =
      offset + elements > static_cast<std::int64_t>(master.size()) ? 0 : offset;
  offset = start + round_up(elements, kAlignment);
  return start;
}

Activity HostUpdates::adam(std::int64_t elements, int threads) {
  return [buffers = buffers_, elements, threads] {
    const auto window = [at = static_cast<std::size_t>(buffers->next_window(elements)),
                         count = static_cast<std::size_t>(elements)](auto& values) {
      return std::span(values).subspan(at, count);
    };
    const AdamState state{window(buffers->master), window(buffers->first), window(buffers->second),
                          window(buffers->rounded)};
    adamw(state, std::span<const BFloat16Bits>(window(buffers->gradient)), AdamCoefficients{},
          threads);
  };
}

Activity HostUpdates::square_sum(std::int64_t elements) {
  auto result = std::make_shared<ExactSum>();
  return [buffers = buffers_, elements, result] {
    const auto at = static_cast<std::size_t>(buffers->next_window(elements));
    *result = athanor::square_sum(std::span<const BFloat16Bits>(buffers->gradient)
                                      .subspan(at, static_cast<std::size_t>(elements)));
  };
}

std::map<int, Curve> measure_host_adam(HostUpdates& updates,
                                       const std::vector<std::int64_t>& elements, int host_cores,
                                       const StoppingRule& rule) {
  std::set<int> threads{host_cores, std::max(1, 3 * host_cores / 4)};
  for (int count = 1; count < host_cores; count *= 2) {
    threads.insert(count);
  }
  std::map<int, Curve> curves;
  for (const int count : threads) {
    std::vector<std::int64_t> sizes = elements;
    std::erase_if(sizes, [count](std::int64_t size) { return size > count * kElementsPerThread; });
    curves[count] =
        measure_curve(sizes, rule, [&](std::int64_t size) { return updates.adam(size, count); });
  }
  return curves;
}

}  // namespace athanor
