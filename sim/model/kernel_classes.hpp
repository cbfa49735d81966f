// SPDX-License-Identifier: Apache-2.0
// Classes of device activities, by the names of their kernels.
#pragma once

#include <string>
#include <string_view>

namespace athanor {

enum class KernelClass {
  MatrixProduct,
  Attention,
  Normalisation,
  Elementwise,
  Reduction,
  Indexing,  ///< embedding tables, gather, scatter, sort
  Copy,      ///< within the device, fills included
  Optimizer,
  Loss,
  Communication,
  Transfer,  ///< copies to and from the device
  Other,     ///< no rule knows the name
};
inline constexpr int kNumKernelClasses = 12;

/// Class of a kernel or copy, from its demangled name as CUPTI and Kineto have it: kernels of
/// cuBLAS, cuDNN, CUTLASS, NCCL, Triton, flash attention and PyTorch, "Memcpy HtoD (Pinned ->
/// Device)", "Memset (Device)".
[[nodiscard]] KernelClass kernel_class(std::string_view name) noexcept;

/// Whether the matrix units bound the time of the class. Memory bounds all others.
[[nodiscard]] bool is_product(KernelClass kind) noexcept;

/// Shortens a demangled name: without return type, parameters and anonymous namespaces, cut to what
/// a table can hold. Take the class from the full name, because the part that is cut may decide it.
[[nodiscard]] std::string short_kernel_name(std::string_view name);

}  // namespace athanor
