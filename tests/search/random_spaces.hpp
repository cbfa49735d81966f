// SPDX-License-Identifier: Apache-2.0
// Random small search spaces over an architecture of some six units.
#pragma once

#include "sim/search/space/search_space.hpp"

#include <algorithm>
#include <random>

namespace athanor::test {

template <typename T>
T pick(std::mt19937& random, const std::vector<T>& from) {
  return from[std::uniform_int_distribution<std::size_t>(0, from.size() - 1)(random)];
}

/// One to `most` distinct values in random order.
template <typename T>
std::vector<T> some_of(std::mt19937& random, std::vector<T> from, std::size_t most) {
  std::shuffle(from.begin(), from.end(), random);
  from.resize(std::uniform_int_distribution<std::size_t>(1, std::min(most, from.size()))(random));
  return from;
}

inline SearchSpace random_space(std::mt19937& random, const std::vector<BatchSplit>& batches) {
  SearchSpace space;
  space.batches = some_of(random, batches, 2);
  space.shardings = some_of(
      random, std::vector{Sharding::Replicated, Sharding::OptimizerSharded, Sharding::Sharded}, 3);
  space.chunk_elements = some_of(random, std::vector<std::int64_t>{100, 333, 5000}, 2);
  space.recompute_units = some_of(random, std::vector{0, 3, 9}, 2);
  space.offload_units = some_of(random, std::vector{0, 1, 9}, 2);
  space.leading_gpu_optimizer = some_of(random, std::vector{0, 2, 6}, 2);
  space.trailing_gpu_optimizer = some_of(random, std::vector{0, 1}, 2);
  space.trailing_nvme_optimizer = some_of(random, std::vector{0, 1, 3, 6}, 2);
  space.nvme_parameters = some_of(random, std::vector{false, true}, 2);
  space.leading_gpu_parameters = some_of(random, std::vector{0, 3, 6}, 2);
  space.trailing_gpu_parameters = some_of(random, std::vector{0, 2}, 1);
  space.cache_slots = some_of(random, std::vector{1, 2, 4}, 2);
  space.prefetch_depths = some_of(random, std::vector{0, 1, 2}, 2);
  space.gradient_buffers = some_of(random, std::vector{1, 2, 9}, 2);
  space.gradient_rings = some_of(random, std::vector{1, 3}, 2);
  space.gradient_rings.push_back(0);
  space.adam_threads = some_of(random, std::vector{1, 2, 4}, 2);
  return space;
}

inline Candidate random_candidate(std::mt19937& random) {
  const SearchSpace space = random_space(random, {{1, 2}, {2, 1}});
  return {.batch = pick(random, space.batches),
          .sharding = pick(random, space.shardings),
          .chunk_elements = pick(random, space.chunk_elements),
          .recompute_units = pick(random, space.recompute_units),
          .offload_units = pick(random, space.offload_units),
          .leading_gpu_optimizer = pick(random, space.leading_gpu_optimizer),
          .trailing_gpu_optimizer = pick(random, space.trailing_gpu_optimizer),
          .trailing_nvme_optimizer = pick(random, space.trailing_nvme_optimizer),
          .nvme_parameters = pick(random, space.nvme_parameters),
          .attention_on_gpu = pick(random, std::vector{false, true}),
          .leading_gpu_parameters = pick(random, space.leading_gpu_parameters),
          .trailing_gpu_parameters = pick(random, space.trailing_gpu_parameters),
          .cache_slots = pick(random, space.cache_slots),
          .prefetch_depth = pick(random, space.prefetch_depths),
          .gradient_buffers = pick(random, space.gradient_buffers),
          .gradient_ring = pick(random, space.gradient_rings),
          .adam_threads = pick(random, space.adam_threads)};
}

}  // namespace athanor::test
