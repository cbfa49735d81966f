// SPDX-License-Identifier: Apache-2.0
#include "executor/units/random_tokens.hpp"

#include <torch/utils.h>

namespace athanor {

namespace {

/// Seed of random batches. Any value will do: a profile depends on the ids' shape and spread alone.
constexpr std::uint64_t kBatchSeed = 20240520;

}  // namespace

std::function<Batch(std::int64_t num_samples)> random_tokens(std::int64_t vocab_size,
                                                             std::int64_t sequence_length) {
  return [vocab_size, sequence_length](std::int64_t num_samples) {
    const auto generator = at::make_generator<at::CPUGeneratorImpl>(kBatchSeed);
    const torch::Tensor tokens =
        torch::randint(0, vocab_size, {num_samples, sequence_length + 1}, generator, torch::kInt64);
    return Batch{tokens.slice(1, 0, sequence_length).contiguous(),
                 tokens.slice(1, 1, sequence_length + 1).contiguous()};
  };
}

}  // namespace athanor
