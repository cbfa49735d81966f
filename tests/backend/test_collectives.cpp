// SPDX-License-Identifier: Apache-2.0
// Run by mpirun: every rank checks every collective against values that it works out by itself.
// One test case, because MPI cannot be initialized twice; CHECK and never REQUIRE, because a rank
// that leaves early would keep the others waiting.
#include "executor/backend/collectives_local.hpp"
#include "executor/backend/collectives_mpi.hpp"
#include "executor/cpu/bfloat16.hpp"
#include "executor/rendezvous/rank_from_environment.hpp"
#include "sim/base/errors.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

namespace athanor {
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

void check_all_gather(Collectives& ranks, std::int64_t part) {
  const int n = ranks.world_size();
  std::vector<std::uint8_t> buffer(static_cast<std::size_t>(n * part), 0xFF);
  std::fill_n(buffer.begin() + ranks.rank() * part, part, std::uint8_t(ranks.rank() + 1));
  ranks.all_gather(buffer.data(), part);
  std::vector<std::uint8_t> expected;
  for (int rank = 0; rank < n; ++rank) {
    expected.insert(expected.end(), static_cast<std::size_t>(part), std::uint8_t(rank + 1));
  }
  CHECK(buffer == expected);
}

/// Rank a sends b the bytes 16 a + b.
void check_all_to_all(Collectives& ranks, std::int64_t part) {
  std::vector<std::uint8_t> from, expected;
  for (int other = 0; other < ranks.world_size(); ++other) {
    const auto size = static_cast<std::size_t>(part);
    from.insert(from.end(), size, std::uint8_t(16 * ranks.rank() + other));
    expected.insert(expected.end(), size, std::uint8_t(16 * other + ranks.rank()));
  }
  std::vector<std::uint8_t> to(from.size(), 0xFF);
  ranks.all_to_all(from.data(), to.data(), part);
  CHECK(to == expected);
}

void check_reduce_scatter(Collectives& ranks, std::int64_t part) {
  const int n = ranks.world_size();
  std::vector<float> buffer = contributions(ranks.rank(), n * part);
  ranks.reduce_scatter(buffer.data(), n * part, DataType::Float32);
  CHECK(holds_sums(buffer, ranks.rank() * part, (ranks.rank() + 1) * part, n));
}

void check_all_reduce(Collectives& ranks, std::int64_t elements) {
  std::vector<float> buffer = contributions(ranks.rank(), elements);
  ranks.all_reduce(buffer.data(), elements, DataType::Float32);
  CHECK(holds_sums(buffer, 0, elements, ranks.world_size()));
}

void check_bfloat16(Collectives& ranks, std::int64_t elements) {
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
  CHECK(buffer == expected);
}

TEST_CASE("collectives between processes") {
  const RankInfo place = rank_from_environment();
  const auto ranks = make_mpi_collectives();
  CHECK(ranks->rank() == place.rank);
  CHECK(ranks->world_size() == place.world_size);
  // Parts in whole cache lines and in bytes; below and above the eager limits.
  for (const std::int64_t part : {1, 64, 1000, 4096, 300'000, 1 << 20}) {
    check_all_gather(*ranks, part);
    check_all_to_all(*ranks, part);
    check_reduce_scatter(*ranks, part / 4 + 1);
    check_all_reduce(*ranks, part / 4 + 1);
    check_bfloat16(*ranks, part / 4 + 1);
  }
  if (ranks->world_size() > 1) {
    CHECK_THROWS_AS(ranks->reduce_scatter(nullptr, ranks->world_size() + 1, DataType::Float32),
                    Error);
    ranks->barrier();
  }
}

TEST_CASE("one process needs no collectives") {
  const auto local = make_local_collectives();
  float value = 3.0F;
  local->all_reduce(&value, 1, DataType::Float32);
  local->all_gather(&value, 4);
  local->barrier();
  CHECK(value == 3.0F);
  float copy = 0;
  local->all_to_all(&value, &copy, 4);
  CHECK(copy == 3.0F);
  CHECK(local->world_size() == 1);
}

}  // namespace
}  // namespace athanor
