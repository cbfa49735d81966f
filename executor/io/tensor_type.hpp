// SPDX-License-Identifier: Apache-2.0
// Element types of a safetensors file.
#pragma once

#include "sim/base/quantities.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace athanor {

enum class TensorType {
  Bool,
  U8,
  I8,
  F8E5M2,
  F8E4M3,
  U16,
  I16,
  F16,
  BF16,
  U32,
  I32,
  F32,
  U64,
  I64,
  F64,
};

/// Name of a type in a file: "F32", "BF16", ..
[[nodiscard]] std::string_view name_of(TensorType type) noexcept;
[[nodiscard]] std::optional<TensorType> tensor_type(std::string_view name) noexcept;
[[nodiscard]] Bytes size_of(TensorType type) noexcept;
[[nodiscard]] constexpr TensorType tensor_type(DataType dtype) noexcept {
  return dtype == DataType::Float32 ? TensorType::F32 : TensorType::BF16;
}

/// Whether the type can be read as fp32 without loss: F32, F16 and BF16.
[[nodiscard]] bool widens_to_float(TensorType type) noexcept;

/// Widens `from` (elements of `type`, any alignment) into as many elements of `to`.
void widen(std::span<const std::byte> from, TensorType type, std::span<float> to);

/// Elements of MXFP4 (the OCP's microscaling formats) that share a scale.
inline constexpr std::int64_t kMxfp4Block = 32;
/// Widens elements of 4 bits, two in a byte and the lower bits first. Each block of `blocks` has
/// its scale in `scales`: a byte that is the exponent of a power of two, plus 127. The scale 255
/// makes NaN of its block.
void widen_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                 std::span<float> to);

/// Rounds `from` to `type`, F32 or BF16 (as split_master() does), into as many elements at `to`.
void narrow(std::span<const float> from, TensorType type, std::span<std::byte> to);

}  // namespace athanor
