// SPDX-License-Identifier: Apache-2.0
// Tensors of a Hugging Face folder, where they are not the parameters one by one.
#pragma once

#include "sim/model/architecture.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace athanor {

/// One tensor of a model's files: consecutive parameters of a unit.
struct StoredTensor {
  Parameter tensor;  ///< its name and shape
  std::size_t first = 0, count = 1;
  /// 0: parameters lie one after the other, as they are. Otherwise so many matrices [out, in] of an
  /// expert are one of [in, out * layers], which has the layers in turns.
  std::int64_t layers_in_turns = 0;
  bool outputs_first = false;  ///< with layers in turns: [out * layers, in], as MXFP4 has it
};

/// Lists the tensors of `unit` in the order of its parameters. Each is one of them, except that
/// files of granitemoe and gpt_oss have all experts' gates and ups in one tensor, and all downs in
/// another; gpt_oss's have their biases in two more.
[[nodiscard]] std::vector<StoredTensor> stored_tensors(const Architecture& architecture,
                                                       const Unit& unit);

/// Copies the values of a stored tensor to those of its parameters.
void take_apart(const StoredTensor& stored, const Unit& unit, std::span<const float> file,
                const std::vector<std::span<float>>& parameters);

/// Copies the values of parameters to those of the stored tensor that they make.
void put_together(const StoredTensor& stored, const Unit& unit,
                  const std::vector<std::span<const float>>& parameters, std::span<float> file);

}  // namespace athanor
