// SPDX-License-Identifier: Apache-2.0
// cuBLASLt stores matrices column after column, so a matrix [rows, columns] here is its transpose
// there. The right operand therefore comes first, and its bias runs along the result's columns.
#include "executor/cuda/operators/matrix_products.hpp"

#include "executor/cuda/operators/cublaslt_handles.hpp"

#include <ATen/cuda/CUDAContext.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>

#include <algorithm>
#include <array>
#include <bit>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>

namespace athanor::cuda {
namespace {

/// A matrix in memory: rows `stride` elements apart, or columns where it is transposed.
struct Operand {
  std::int64_t stride = 0;
  bool transposed = false;
  std::uint32_t alignment = 0;  ///< bytes
  auto operator<=>(const Operand&) const = default;
};

/// Everything that cuBLASLt's choice of an algorithm depends on.
struct Shape {
  c10::DeviceIndex device = 0;
  std::int64_t rows = 0, columns = 0, inner = 0;
  Operand left, right, result;
  std::uint32_t bias_alignment = 0;  ///< 0: no bias
  std::optional<Operand> addend;     ///< added to the product; the result itself, perhaps
  auto operator<=>(const Shape&) const = default;
};

std::uint32_t alignment_of(const void* address) {
  constexpr std::uint32_t kMost = 256;
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  return std::min(kMost, std::uint32_t{1} << std::min(8, std::countr_zero(bits)));
}

std::optional<Operand> operand(const at::Tensor& matrix) {
  const std::uint32_t alignment = alignment_of(matrix.const_data_ptr());
  if (matrix.stride(1) == 1 && matrix.stride(0) >= matrix.size(1)) {
    return Operand{matrix.stride(0), false, alignment};
  }
  if (matrix.stride(0) == 1 && matrix.stride(1) >= matrix.size(0)) {
    return Operand{matrix.stride(1), true, alignment};
  }
  return std::nullopt;
}

/// Describes a matrix [rows, columns].
LtLayout layout(const Operand& of, std::int64_t rows, std::int64_t columns) {
  return of.transposed ? make_lt_layout(rows, columns, of.stride)
                       : make_lt_layout(columns, rows, of.stride);
}

/// Handle and workspace of cuBLASLt on a stream. LibTorch owns them.
struct Means {
  cublasLtHandle_t handle = at::cuda::getCurrentCUDABlasLtHandle();
  std::size_t workspace_bytes = at::cuda::getCUDABlasLtWorkspaceSize();
  void* workspace = at::cuda::getCUDABlasLtWorkspace();
};

/// Returns the means of the current stream, kept by this thread.
const Means& means_on(const c10::cuda::CUDAStream& stream) {
  thread_local std::map<std::pair<c10::DeviceIndex, cudaStream_t>, Means> means;
  return means.try_emplace({stream.device_index(), stream.stream()}).first->second;
}

/// A product of one shape, ready to run.
class Product {
 public:
  explicit Product(const Shape& shape)
      : left_(layout(shape.left, shape.rows, shape.inner)),
        right_(layout(shape.right, shape.inner, shape.columns)),
        addend_(layout(shape.addend.value_or(shape.result), shape.rows, shape.columns)),
        result_(layout(shape.result, shape.rows, shape.columns)) {
    describe(shape);
    choose(shape);
  }

  /// Whether cuBLASLt multiplies this shape.
  [[nodiscard]] bool possible() const noexcept { return possible_; }

  /// `addend` is null where the shape has none.
  void run(const void* left, const void* right, const void* bias, const void* addend,
           void* result) const {
    const c10::cuda::CUDAStream stream = at::cuda::getCurrentCUDAStream();
    const Means& means = means_on(stream);
    const float one = 1.0F;
    const float kept = addend != nullptr ? 1.0F : 0.0F;
    const void* const added = addend != nullptr ? addend : result;
    if (bias != nullptr) set(description_, CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
    check(cublasLtMatmul(means.handle, description_.get(), &one, right, right_.get(), left,
                         left_.get(), &kept, added, addend_.get(), result, result_.get(),
                         &algorithm_, means.workspace, means.workspace_bytes, stream.stream()),
          "multiply");
  }

 private:
  void describe(const Shape& shape) {
    const auto operation = [](const Operand& of) {
      return of.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    };
    set(description_, CUBLASLT_MATMUL_DESC_TRANSA, operation(shape.right));
    set(description_, CUBLASLT_MATMUL_DESC_TRANSB, operation(shape.left));
    if (shape.bias_alignment == 0) return;
    set(description_, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(description_, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, CUDA_R_16BF);
  }

  /// Chooses the first of cuBLASLt's proposals.
  void choose(const Shape& shape) {
    const LtPreference preference = make_lt_preference();
    set(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
        std::uint64_t{at::cuda::getCUDABlasLtWorkspaceSize()});
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, shape.right.alignment);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, shape.left.alignment);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
        shape.addend.value_or(shape.result).alignment);
    set(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
        shape.bias_alignment == 0 ? shape.result.alignment
                                  : std::min(shape.result.alignment, shape.bias_alignment));
    cublasLtMatmulHeuristicResult_t proposal{};
    int found = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        at::cuda::getCurrentCUDABlasLtHandle(), description_.get(), right_.get(), left_.get(),
        addend_.get(), result_.get(), preference.get(), 1, &proposal, &found);
    possible_ = status == CUBLAS_STATUS_SUCCESS && found > 0;
    algorithm_ = proposal.algo;
  }

  LtLayout left_, right_, addend_, result_;
  LtDescription description_ = make_lt_description();
  cublasLtMatmulAlgo_t algorithm_{};
  bool possible_ = false;
};

/// Returns the product of a shape. Products belong to this thread, which sets their bias.
const Product& product_of(const Shape& shape) {
  thread_local std::map<Shape, Product> products;
  return products.try_emplace(shape, shape).first->second;
}

/// Summands that a product takes up before it is rounded; null: none.
struct Added {
  const at::Tensor* bias = nullptr;
  const at::Tensor* addend = nullptr;
};

const void* data_of(const at::Tensor* tensor) {
  return tensor == nullptr ? nullptr : tensor->const_data_ptr();
}

/// Returns the shape of a product that cuBLASLt may take, or nothing.
std::optional<Shape> shape_of(const at::Tensor& left, const at::Tensor& right, const Added& added,
                              const at::Tensor& result) {
  const auto left_operand = operand(left), right_operand = operand(right);
  const auto result_operand = operand(result);
  const auto addend = added.addend == nullptr ? std::nullopt : operand(*added.addend);
  if (!left_operand || !right_operand || !result_operand || result_operand->transposed) return {};
  if (added.addend != nullptr && (!addend || addend->transposed)) return {};
  return Shape{result.device().index(),
               left.size(0),
               right.size(1),
               left.size(1),
               *left_operand,
               *right_operand,
               *result_operand,
               added.bias == nullptr ? 0 : alignment_of(data_of(added.bias)),
               addend};
}

/// Multiplies by cuBLASLt. Returns false, and does nothing, where LibTorch has to multiply.
bool multiply(const at::Tensor& left, const at::Tensor& right, const Added& added,
              const at::Tensor& result) {
  TORCH_CHECK(left.dim() == 2 && right.dim() == 2 && left.size(1) == right.size(0),
              "a product takes [m, k] and [k, n], not ", left.sizes(), " and ", right.sizes());
  const auto is_bf16 = [](const at::Tensor& t) { return t.scalar_type() == at::kBFloat16; };
  if (!is_bf16(left) || !is_bf16(right) || !is_bf16(result) || result.numel() == 0) return false;
  if (left.numel() == 0 || (added.addend != nullptr && !is_bf16(*added.addend))) return false;
  if (added.bias != nullptr && (!is_bf16(*added.bias) || !added.bias->is_contiguous())) {
    return false;
  }
  const std::optional<Shape> shape = shape_of(left, right, added, result);
  if (!shape) return false;
  const Product& chosen = product_of(*shape);
  if (!chosen.possible()) return false;
  chosen.run(left.const_data_ptr(), right.const_data_ptr(), data_of(added.bias),
             data_of(added.addend), result.mutable_data_ptr());
  return true;
}

}  // namespace

at::Tensor product(const at::Tensor& left, const at::Tensor& right,
                   const std::optional<at::Tensor>& bias) {
  at::Tensor result = at::empty({left.size(0), right.size(1)}, left.options());
  if (multiply(left, right, {bias ? &*bias : nullptr}, result)) return result;
  return bias ? at::addmm_out(result, *bias, left, right) : at::mm_out(result, left, right);
}

void add_product(at::Tensor& sum, const at::Tensor& left, const at::Tensor& right) {
  if (!multiply(left, right, {nullptr, &sum}, sum)) sum.addmm_(left, right);
}

void product_into(at::Tensor& result, const at::Tensor& left, const at::Tensor& right,
                  const std::optional<at::Tensor>& bias, const std::optional<at::Tensor>& addend) {
  if (multiply(left, right, {bias ? &*bias : nullptr, addend ? &*addend : nullptr}, result)) return;
  at::Tensor product = bias ? at::addmm(*bias, left, right) : at::mm(left, right);
  if (addend) product.add_(*addend);
  result.copy_(product);
}

}  // namespace athanor::cuda
