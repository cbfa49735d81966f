// SPDX-License-Identifier: Apache-2.0
#include "executor/units/block.hpp"

#include <utility>

namespace athanor {

BlockUnit::BlockUnit(const Unit& unit, std::string prefix, const LanguageModelConfig& config,
                     std::int64_t layer, DataType dtype, MakeHalf make,
                     const std::vector<Half>& halves)
    : LanguageUnit(unit, std::move(prefix), dtype),
      hidden_(config.hidden_size),
      carries_sums_(config.experts.balance_loss_factor > 0) {
  for (const Half half : halves) halves_.push_back(make(*this, config, layer, half));
}

torch::Tensor BlockUnit::forward(torch::Tensor activation, const Batch& batch) {
  if (!carries_sums_) return all_halves(std::move(activation), batch, nullptr);
  Routed routed = parted(activation, batch.inputs, hidden_);
  routed.hidden = all_halves(std::move(routed.hidden), batch, &routed.sums);
  return joined(routed);
}

torch::Tensor BlockUnit::all_halves(torch::Tensor x, const Batch& batch,
                                    torch::Tensor* sums) const {
  for (const auto& half : halves_) x = half->add_to(x, batch, sums);
  return x;
}

}  // namespace athanor
