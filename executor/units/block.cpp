// SPDX-License-Identifier: Apache-2.0
#include "executor/units/block.hpp"

#include <utility>

namespace athanor {

torch::Tensor LinkedAttention::add_to(const torch::Tensor& x, const Batch& batch,
                                      torch::Tensor* /*sums*/) const {
  const Branch stream = branch(x, norm_);
  return stream.trunk + output_(attend(stream.normal, batch));
}

Branch LinkedAttention::add_to(const torch::Tensor& x, const Batch& batch,
                               const LayerNorm& norm) const {
  const Branch stream = branch(x, norm_);
  return add_and_branch(stream.trunk, output_, attend(stream.normal, batch), norm);
}

torch::Tensor LinkedMlp::add_to(const torch::Tensor& x, const Batch& /*batch*/,
                                torch::Tensor* /*sums*/) const {
  return add_to(branch(x, norm_));
}

torch::Tensor LinkedMlp::add_to(const Branch& stream) const {
  return stream.trunk + contract_(activated(expand_, stream.normal, activation_));
}

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
