// SPDX-License-Identifier: Apache-2.0
// Data for the tiny model of run_plans.hpp, to train and to evaluate on.
#pragma once

#include "executor/batches/batch_source.hpp"
#include "tests/train/run_plans.hpp"

#include <algorithm>
#include <cstdint>

namespace athanor::test {

/// Returns samples; sample i is a function of i alone.
inline Batch batch_of(std::int64_t first, std::int64_t count) {
  const auto span = kSequence + 1;
  torch::Tensor ids = torch::arange(first * span, (first + count) * span, torch::kInt64);
  ids = (ids * ids * 7 + ids * 3).remainder(61).view({count, span});
  return {ids.slice(1, 0, kSequence).contiguous(), ids.slice(1, 1).contiguous()};
}

/// Returns samples that training does not see, not a whole number of global batches.
inline EvaluationSource held_out() {
  constexpr std::int64_t kFirst = 1000, kSamples = 7;
  return {.num_samples = kSamples,
          .batches = [](std::int64_t first,
                        std::int64_t count) { return batch_of(kFirst + first, count); },
          .num_targets =
              [](std::int64_t first, std::int64_t count) {
                return kSequence * std::clamp<std::int64_t>(kSamples - first, 0, count);
              }};
}

}  // namespace athanor::test
