// SPDX-License-Identifier: Apache-2.0
#include "executor/train/token_batches.hpp"

#include <utility>

namespace athanor {

BatchSource token_batches(std::shared_ptr<const TokenDataset> tokens, std::int64_t sequence_length,
                          std::int64_t shift) {
  return
      [tokens = std::move(tokens), sequence_length, shift](std::int64_t first, std::int64_t count) {
        Batch batch{torch::empty({count, sequence_length}, torch::kInt64),
                    torch::empty({count, sequence_length}, torch::kInt64)};
        const auto row = [&](const torch::Tensor& tensor, std::int64_t i) {
          return std::span(tensor.mutable_data_ptr<std::int64_t>() + i * sequence_length,
                           static_cast<std::size_t>(sequence_length));
        };
        for (std::int64_t i = 0; i < count; ++i) {
          tokens->read_sample(shift + first + i, row(batch.inputs, i), row(batch.targets, i));
        }
        return batch;
      };
}

}  // namespace athanor
