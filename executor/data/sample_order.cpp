// SPDX-License-Identifier: Apache-2.0
#include "executor/data/sample_order.hpp"

#include "sim/base/split_mix.hpp"

namespace athanor {

std::uint64_t mixed_bits(std::uint64_t x) noexcept {
  return split_mix_finalizer(x + 0x9e3779b97f4a7c15U);
}

std::int64_t permuted(std::int64_t place, std::int64_t count, std::uint64_t key) {
  constexpr std::uint64_t kRounds = 4;
  std::uint64_t half_bits = 1;
  while ((std::uint64_t{1} << (2 * half_bits)) < static_cast<std::uint64_t>(count)) ++half_bits;
  const std::uint64_t mask = (std::uint64_t{1} << half_bits) - 1;
  auto value = static_cast<std::uint64_t>(place);
  do {
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const std::uint64_t right = value & mask;
      const std::uint64_t left =
          (value >> half_bits) ^ (mixed_bits(key + round + mixed_bits(right)) & mask);
      value = (right << half_bits) | left;
    }
  } while (value >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(value);
}

std::int64_t repeated_place(std::int64_t index, std::int64_t count, std::uint64_t key) {
  const std::int64_t pass = index / count;
  const std::int64_t place = index % count;
  if (pass == 0) return place;
  return permuted(place, count, mixed_bits(key + mixed_bits(static_cast<std::uint64_t>(pass))));
}

std::int64_t SampleOrder::sample(std::int64_t index, std::int64_t count) const {
  if (!shuffled) return index;
  const auto pass = static_cast<std::uint64_t>(index / count);
  return permuted(index % count, count, mixed_bits(seed + mixed_bits(pass)));
}

}  // namespace athanor
