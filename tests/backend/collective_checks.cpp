// SPDX-License-Identifier: Apache-2.0
#include "tests/backend/collective_checks.hpp"

#include "executor/cpu/bfloat16.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

namespace athanor::test {
namespace {

/// Element `i` of `rank`'s contribution. The last bits of sums depend on their order.
float contribution(int rank, std::int64_t i) {
  return std::sin(static_cast<float>(i * 7 + rank * 13 + 1)) * (rank == 1 ? 1e3F : 1.0F);
}

float expected_sum(int world_size, std::int64_t i) {
  float sum = contribution(0, i);
  for (int rank = 1; rank < world_size; ++rank) {
    sum += contribution(rank, i);
  }
  return sum;
}

std::vector<float> contributions(int rank, std::int64_t elements) {
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (std::int64_t i = 0; i < elements; ++i) {
    values[i] = contribution(rank, i);
  }
  return values;
}

bool holds_sums(const std::vector<float>& values, std::int64_t begin, std::int64_t end,
                int world_size) {
  for (std::int64_t i = begin; i < end; ++i) {
    if (values[i] != expected_sum(world_size, i)) {
      return false;
    }
  }
  return true;
}

}  // namespace

bool gathers_all(Collectives& ranks, std::int64_t part) {
  const int n = ranks.world_size();
  std::vector<std::uint8_t> buffer(static_cast<std::size_t>(n * part), 0xFF);
  std::fill_n(buffer.begin() + ranks.rank() * part, part, std::uint8_t(ranks.rank() + 1));
  ranks.all_gather(buffer.data(), part);
  std::vector<std::uint8_t> expected;
  for (int rank = 0; rank < n; ++rank) {
    expected.insert(expected.end(), static_cast<std::size_t>(part), std::uint8_t(rank + 1));
  }
  return buffer == expected;
}

bool sends_all_to_all(Collectives& ranks, std::int64_t part) {
  std::vector<std::uint8_t> from, expected;
  for (int other = 0; other < ranks.world_size(); ++other) {
    const auto size = static_cast<std::size_t>(part);
    from.insert(from.end(), size, std::uint8_t(16 * ranks.rank() + other));
    expected.insert(expected.end(), size, std::uint8_t(16 * other + ranks.rank()));
  }
  std::vector<std::uint8_t> to(from.size(), 0xFF);
  ranks.all_to_all(from.data(), to.data(), part);
  return to == expected;
}

bool scatters_sums(Collectives& ranks, std::int64_t part) {
  const int n = ranks.world_size();
  std::vector<float> buffer = contributions(ranks.rank(), n * part);
  ranks.reduce_scatter(buffer.data(), n * part, DataType::Float32);
  return holds_sums(buffer, ranks.rank() * part, (ranks.rank() + 1) * part, n);
}

bool sums_everywhere(Collectives& ranks, std::int64_t elements) {
  std::vector<float> buffer = contributions(ranks.rank(), elements);
  ranks.all_reduce(buffer.data(), elements, DataType::Float32);
  return holds_sums(buffer, 0, elements, ranks.world_size());
}

bool sums_bfloat16(Collectives& ranks, std::int64_t elements) {
  std::vector<std::uint16_t> buffer(static_cast<std::size_t>(elements));
  std::vector<std::uint16_t> expected(buffer.size());
  for (std::int64_t i = 0; i < elements; ++i) {
    buffer[i] = round_to_bf16(contribution(ranks.rank(), i));
    float sum = 0;
    for (int rank = 0; rank < ranks.world_size(); ++rank) {
      sum += widen_bf16(round_to_bf16(contribution(rank, i)));
    }
    expected[i] = round_to_bf16(sum);
  }
  ranks.all_reduce(buffer.data(), elements, DataType::BFloat16);
  return buffer == expected;
}

bool all_collectives_work(Collectives& ranks) {
  bool work = true;
  for (const std::int64_t part : {1, 64, 1000, 4096, 300'000, 1 << 20}) {
    work &= gathers_all(ranks, part);
    work &= sends_all_to_all(ranks, part);
    work &= scatters_sums(ranks, part / 4 + 1);
    work &= sums_everywhere(ranks, part / 4 + 1);
    work &= sums_bfloat16(ranks, part / 4 + 1);
  }
  return work;
}

}  // namespace athanor::test
