// SPDX-License-Identifier: Apache-2.0
// Runs the stages of a unit whose activations travel, on ranks that are all in this process.
#pragma once

#include "executor/units/unit_runner.hpp"

#include <torch/torch.h>

#include <cstddef>
#include <memory>
#include <vector>

namespace athanor::test {

/// One rank: its runner, and what it holds between stages.
struct StagedRank {
  std::unique_ptr<UnitRunner> runner;
  UnitActivations activations;
  Batch batch;
  torch::Tensor result;
};

/// Runs forward on all ranks, which derive from StagedRank. Between two stages it calls
/// `exchange(ranks, stage, backward)`, which moves rows from rank to rank.
template <typename Rank, typename Exchange>
void forward(std::vector<Rank>& ranks, bool keep, const Exchange& exchange) {
  for (int stage = 0; stage < 3; ++stage) {
    for (Rank& rank : ranks) {
      rank.result = rank.runner->forward_stage(stage, rank.activations, rank.batch, keep);
    }
    if (stage < 2) exchange(ranks, stage, /*backward=*/false);
  }
}

/// Runs backward likewise, from the gradients of the ranks' outputs.
template <typename Rank, typename Exchange>
void backward(std::vector<Rank>& ranks, const std::vector<torch::Tensor>& gradients,
              const Exchange& exchange) {
  for (int stage = 0; stage < 3; ++stage) {
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ranks[i].result = ranks[i].runner->backward_stage(
          stage, ranks[i].activations, stage == 0 ? gradients[i] : torch::Tensor());
    }
    if (stage < 2) exchange(ranks, stage, /*backward=*/true);
  }
}

}  // namespace athanor::test
