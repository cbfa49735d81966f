// SPDX-License-Identifier: Apache-2.0
// bf16 products by cuBLASLt with its fused epilogues, for the benchmark that compares them with
// athanor's own kernels.
#pragma once

#include "executor/cuda/operators/cublaslt_handles.hpp"

#include <torch/types.h>

#include <vector>

namespace athanor::test {

/// A matrix [rows, columns], row after row; `transposed` uses it as [columns, rows].
struct Operand {
  torch::Tensor matrix;
  bool transposed = false;
};

/// left x right + accumulate * addend, then the epilogue.
struct Epilogue {
  cublasLtEpilogue_t kind = CUBLASLT_EPILOGUE_DEFAULT;
  torch::Tensor bias;       ///< read, or written by the gradient epilogues
  torch::Tensor auxiliary;  ///< the input of GELU, [rows, columns] of the result
  torch::Tensor addend;     ///< [rows, columns] of the result, or undefined
};

/// One product with all algorithms that cuBLASLt proposes for it, best guess first.
class LtProduct {
 public:
  /// Throws Error when cuBLASLt has no algorithm.
  LtProduct(Operand left, Operand right, Epilogue epilogue, torch::Tensor result);

  [[nodiscard]] int algorithms() const { return static_cast<int>(algorithms_.size()); }
  void run(int algorithm) const;

 private:
  void describe();
  void find_algorithms();

  Operand left_, right_;
  Epilogue epilogue_;
  torch::Tensor result_, workspace_;
  cuda::LtLayout left_layout_, right_layout_, result_layout_;
  cuda::LtDescription description_ = cuda::make_lt_description();
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;
};

}  // namespace athanor::test
