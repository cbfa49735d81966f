// SPDX-License-Identifier: Apache-2.0
// Owners of cuBLASLt's objects, and its checked results.
#pragma once

#include "sim/base/errors.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <type_traits>

namespace athanor::cuda {

/// Throws Error "cuBLASLt: WHAT: reason" unless `status` is success.
inline void check(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw Error(fmt::format("cuBLASLt: {}: {}", what, cublasLtGetStatusString(status)));
}

template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
struct DestroyLt {
  void operator()(Handle handle) const { kDestroy(handle); }
};
template <typename Handle, cublasStatus_t (*kDestroy)(Handle)>
using OwnedLt = std::unique_ptr<std::remove_pointer_t<Handle>, DestroyLt<Handle, kDestroy>>;
using LtLayout = OwnedLt<cublasLtMatrixLayout_t, cublasLtMatrixLayoutDestroy>;
using LtDescription = OwnedLt<cublasLtMatmulDesc_t, cublasLtMatmulDescDestroy>;
using LtPreference = OwnedLt<cublasLtMatmulPreference_t, cublasLtMatmulPreferenceDestroy>;

/// Describes a bf16 matrix, which cuBLASLt stores column after column: `columns` of `rows`
/// elements, `stride` elements from one to the next.
[[nodiscard]] inline LtLayout make_lt_layout(std::int64_t rows, std::int64_t columns,
                                             std::int64_t stride) {
  cublasLtMatrixLayout_t created = nullptr;
  check(cublasLtMatrixLayoutCreate(&created, CUDA_R_16BF, static_cast<std::uint64_t>(rows),
                                   static_cast<std::uint64_t>(columns), stride),
        "describe a matrix");
  return LtLayout(created);
}

/// Describes a product that adds up in fp32.
[[nodiscard]] inline LtDescription make_lt_description() {
  cublasLtMatmulDesc_t created = nullptr;
  check(cublasLtMatmulDescCreate(&created, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describe a product");
  return LtDescription(created);
}

[[nodiscard]] inline LtPreference make_lt_preference() {
  cublasLtMatmulPreference_t created = nullptr;
  check(cublasLtMatmulPreferenceCreate(&created), "make a preference");
  return LtPreference(created);
}

template <typename Value>
void set(const LtDescription& description, cublasLtMatmulDescAttributes_t attribute, Value value) {
  check(cublasLtMatmulDescSetAttribute(description.get(), attribute, &value, sizeof(value)),
        "set an attribute");
}

template <typename Value>
void set(const LtPreference& preference, cublasLtMatmulPreferenceAttributes_t attribute,
         Value value) {
  check(cublasLtMatmulPreferenceSetAttribute(preference.get(), attribute, &value, sizeof(value)),
        "set a preference");
}

}  // namespace athanor::cuda
