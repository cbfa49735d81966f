// SPDX-License-Identifier: Apache-2.0
// cuBLASLt stores matrices column after column, so a matrix [rows, columns] here is its transpose
// there. The right operand therefore comes first, and its bias runs along the result's columns.
#include "tests/cuda/lt_product.hpp"

#include "sim/base/errors.hpp"

#include <ATen/cuda/CUDAContext.h>

#include <string>
#include <utility>

namespace athanor::test {
namespace {

using cuda::check;

constexpr int kMostAlgorithms = 8;
constexpr std::int64_t kWorkspaceBytes = std::int64_t{64} << 20;

cublasLtHandle_t handle() {
  return reinterpret_cast<cublasLtHandle_t>(at::cuda::getCurrentCUDABlasLtHandle());
}

cuda::LtLayout layout_of(const torch::Tensor& matrix) {
  return cuda::make_lt_layout(matrix.size(1), matrix.size(0), matrix.stride(0));
}

cublasOperation_t operation(const Operand& operand) {
  return operand.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
}

}  // namespace

LtProduct::LtProduct(Operand left, Operand right, Epilogue epilogue, torch::Tensor result)
    : left_(std::move(left)),
      right_(std::move(right)),
      epilogue_(std::move(epilogue)),
      result_(std::move(result)),
      workspace_(torch::empty({kWorkspaceBytes}, result_.options().dtype(torch::kUInt8))),
      left_layout_(layout_of(left_.matrix)),
      right_layout_(layout_of(right_.matrix)),
      result_layout_(layout_of(result_)) {
  describe();
  find_algorithms();
}

void LtProduct::describe() {
  cuda::set(description_, CUBLASLT_MATMUL_DESC_TRANSA, operation(right_));
  cuda::set(description_, CUBLASLT_MATMUL_DESC_TRANSB, operation(left_));
  cuda::set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_.kind);
  if (epilogue_.bias.defined()) {
    cuda::set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, epilogue_.bias.data_ptr());
    cuda::set(description_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
  }
  if (epilogue_.auxiliary.defined()) {
    cuda::set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
              epilogue_.auxiliary.data_ptr());
    cuda::set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, epilogue_.auxiliary.stride(0));
  }
}

void LtProduct::find_algorithms() {
  const cuda::LtPreference preference = cuda::make_lt_preference();
  cuda::set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
            static_cast<std::uint64_t>(kWorkspaceBytes));
  algorithms_.resize(kMostAlgorithms);
  int found = 0;
  check(
      cublasLtMatmulAlgoGetHeuristic(handle(), description_.get(), right_layout_.get(),
                                     left_layout_.get(), result_layout_.get(), result_layout_.get(),
                                     preference.get(), kMostAlgorithms, algorithms_.data(), &found),
      "find an algorithm");
  algorithms_.resize(static_cast<std::size_t>(found));
  if (found == 0) throw Error("cuBLASLt has no algorithm for this product");
}

void LtProduct::run(int algorithm) const {
  const float one = 1.0F;
  const bool adds = epilogue_.addend.defined();
  const float beta = adds ? 1.0F : 0.0F;
  const torch::Tensor& addend = adds ? epilogue_.addend : result_;
  check(cublasLtMatmul(handle(), description_.get(), &one, right_.matrix.data_ptr(),
                       right_layout_.get(), left_.matrix.data_ptr(), left_layout_.get(), &beta,
                       addend.data_ptr(), result_layout_.get(), result_.data_ptr(),
                       result_layout_.get(), &algorithms_.at(algorithm).algo, workspace_.data_ptr(),
                       static_cast<std::size_t>(kWorkspaceBytes),
                       at::cuda::getCurrentCUDAStream().stream()),
        "multiply");
}

}  // namespace athanor::test
