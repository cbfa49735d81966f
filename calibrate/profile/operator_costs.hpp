// SPDX-License-Identifier: Apache-2.0
// What ATen operators compute and move, from the shapes that they are called with.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace athanor {

/// A call of an operator; `inputs` in the order of the schema's arguments.
struct OperatorCall {
  const c10::FunctionSchema& schema;
  c10::ArrayRef<const c10::IValue> inputs;
};

/// FLOPs of a matrix product (2 for each multiply-add) or of attention (causal halving included; of
/// its backward, the scores' recomputation too); 0 for every other operator, and where shapes do
/// not tell.
[[nodiscard]] double operator_flops(const OperatorCall& call);

/// Bytes of the tensors that it reads; elements that a view repeats count once. What lookups read
/// of their table is not known before their output is.
[[nodiscard]] double operator_input_bytes(const OperatorCall& call);

/// Bytes of the tensors that it writes, and of what a lookup reads of its table.
[[nodiscard]] double operator_output_bytes(const std::string& name,
                                           const std::vector<c10::IValue>& outputs);

}  // namespace athanor
