// SPDX-License-Identifier: Apache-2.0
// FLOPs and bytes of ATen operators, from the shapes that they are called with.
#pragma once

#include <ATen/core/function_schema.h>
#include <ATen/core/ivalue.h>

#include <vector>

namespace athanor {

/// Call of an operator. `inputs` are in the order of the schema's arguments.
struct OperatorCall {
  const c10::FunctionSchema& schema;
  c10::ArrayRef<const c10::IValue> inputs;
};

/// Returns the FLOPs of a matrix product, 2 for each multiply-add, or of attention. Attention's
/// include causal halving and, in backward, the recomputation of scores. 0 for every other
/// operator, and if shapes do not tell.
[[nodiscard]] double operator_flops(const OperatorCall& call);

/// Returns the bytes of the tensors that the call reads. Elements that a view repeats count once. A
/// lookup's reads of its table are left out: they are known only when its output is.
[[nodiscard]] double operator_input_bytes(const OperatorCall& call);

/// Returns the bytes of the tensors that the call writes, and of a lookup's reads of its table.
[[nodiscard]] double operator_output_bytes(const std::string& name,
                                           const std::vector<c10::IValue>& outputs);

}  // namespace athanor
