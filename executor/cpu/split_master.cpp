// SPDX-License-Identifier: Apache-2.0
#include "executor/cpu/split_master.hpp"

#include "executor/cpu/parallel_blocks.hpp"
#include "executor/cpu/target_clones.hpp"

#include <cassert>

namespace athanor {
namespace {

ATHANOR_VECTOR_CLONES void split_block(const float* __restrict from,
                                       BFloat16Bits* __restrict parameters,
                                       std::int16_t* __restrict rests, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) {
    const SplitMaster split = split_master(from[i]);
    parameters[i] = split.parameter;
    rests[i] = split.rest;
  }
}

ATHANOR_VECTOR_CLONES void join_block(const BFloat16Bits* __restrict parameters,
                                      const std::int16_t* __restrict rests, float* __restrict to,
                                      std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) to[i] = join_master(parameters[i], rests[i]);
}

ATHANOR_VECTOR_CLONES void round_block(const float* __restrict from,
                                       BFloat16Bits* __restrict parameters, std::int64_t elements) {
  for (std::int64_t i = 0; i < elements; ++i) parameters[i] = split_master(from[i]).parameter;
}

}  // namespace

void split_masters(std::span<const float> from, std::span<BFloat16Bits> parameters,
                   std::span<std::int16_t> rests, int threads) {
  assert(parameters.size() == from.size() && rests.size() == from.size());
  parallel_blocks(std::ssize(from), threads, [&](std::int64_t begin, std::int64_t end) {
    split_block(from.data() + begin, parameters.data() + begin, rests.data() + begin, end - begin);
  });
}

void join_masters(std::span<const BFloat16Bits> parameters, std::span<const std::int16_t> rests,
                  std::span<float> to, int threads) {
  assert(parameters.size() == to.size() && rests.size() == to.size());
  parallel_blocks(std::ssize(to), threads, [&](std::int64_t begin, std::int64_t end) {
    join_block(parameters.data() + begin, rests.data() + begin, to.data() + begin, end - begin);
  });
}

void round_to_parameters(std::span<const float> from, std::span<BFloat16Bits> parameters,
                         int threads) {
  assert(parameters.size() == from.size());
  parallel_blocks(std::ssize(from), threads, [&](std::int64_t begin, std::int64_t end) {
    round_block(from.data() + begin, parameters.data() + begin, end - begin);
  });
}

}  // namespace athanor
