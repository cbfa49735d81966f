// SPDX-License-Identifier: Apache-2.0
#include "executor/io/tensor_type.hpp"

#include "executor/cpu/bfloat16.hpp"
#include "executor/cpu/split_master.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace athanor {

namespace {

static_assert(std::endian::native == std::endian::little, "safetensors files are little-endian");

struct TypeRow {
  TensorType type;
  std::string_view name;
  Bytes bytes;
};

/// Types in the order of TensorType.
constexpr std::array<TypeRow, 15> kTypes{{
    {TensorType::Bool, "BOOL", 1},
    {TensorType::U8, "U8", 1},
    {TensorType::I8, "I8", 1},
    {TensorType::F8E5M2, "F8_E5M2", 1},
    {TensorType::F8E4M3, "F8_E4M3", 1},
    {TensorType::U16, "U16", 2},
    {TensorType::I16, "I16", 2},
    {TensorType::F16, "F16", 2},
    {TensorType::BF16, "BF16", 2},
    {TensorType::U32, "U32", 4},
    {TensorType::I32, "I32", 4},
    {TensorType::F32, "F32", 4},
    {TensorType::U64, "U64", 8},
    {TensorType::I64, "I64", 8},
    {TensorType::F64, "F64", 8},
}};

const TypeRow& row_of(TensorType type) noexcept { return kTypes[static_cast<std::size_t>(type)]; }

/// Widens an IEEE 754 binary16 number. Every value, subnormals included, is exact in fp32.
float widen_half(std::uint16_t bits) noexcept {
  constexpr int kMantissaBits = 10;
  constexpr int kBias = 15;
  const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16U;
  const std::uint32_t exponent = (bits >> 10U) & 0x1FU;
  const std::uint32_t mantissa = bits & 0x3FFU;
  if (exponent == 0) {
    const float magnitude = std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
    return sign == 0 ? magnitude : -magnitude;
  }
  const std::uint32_t wide_exponent = exponent == 0x1FU ? 0xFFU : exponent - kBias + 127U;
  return std::bit_cast<float>(sign | (wide_exponent << 23U) | (mantissa << 13U));
}

template <class Convert>
void widen_16(std::span<const std::byte> from, std::span<float> to, Convert convert) {
  for (std::size_t i = 0; i < to.size(); ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from.data() + i * sizeof(bits), sizeof(bits));
    to[i] = convert(bits);
  }
}

}  // namespace

std::string_view name_of(TensorType type) noexcept { return row_of(type).name; }

Bytes size_of(TensorType type) noexcept { return row_of(type).bytes; }

std::optional<TensorType> tensor_type(std::string_view name) noexcept {
  const auto* const row =
      std::find_if(kTypes.begin(), kTypes.end(), [&](const TypeRow& r) { return r.name == name; });
  if (row == kTypes.end()) return std::nullopt;
  return row->type;
}

bool widens_to_float(TensorType type) noexcept {
  return type == TensorType::F32 || type == TensorType::F16 || type == TensorType::BF16;
}

void widen(std::span<const std::byte> from, TensorType type, std::span<float> to) {
  assert(widens_to_float(type) && from.size() == to.size() * size_of(type));
  if (to.empty()) return;
  if (type == TensorType::F32) {
    std::memcpy(to.data(), from.data(), from.size());
  } else if (type == TensorType::BF16) {
    widen_16(from, to, widen_bf16);
  } else {
    widen_16(from, to, widen_half);
  }
}

void widen_mxfp4(std::span<const std::byte> blocks, std::span<const std::byte> scales,
                 std::span<float> to) {
  // A sign, two bits of exponent and one of mantissa.
  constexpr std::array<float, 16> kValues{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                          -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
  constexpr int kBias = 127, kNotANumber = 255;
  constexpr std::size_t kBytes = kMxfp4Block / 2;
  for (std::size_t block = 0; block < scales.size(); ++block) {
    const auto exponent = std::to_integer<int>(scales[block]);
    const float scale = exponent == kNotANumber ? std::numeric_limits<float>::quiet_NaN()
                                                : std::ldexp(1.0F, exponent - kBias);
    for (std::size_t i = block * kBytes; i < (block + 1) * kBytes; ++i) {
      const auto both = std::to_integer<std::size_t>(blocks[i]);
      to[2 * i] = kValues[both & 0xFU] * scale;
      to[2 * i + 1] = kValues[both >> 4U] * scale;
    }
  }
}

void narrow(std::span<const float> from, TensorType type, std::span<std::byte> to) {
  assert(to.size() == from.size() * size_of(type));
  if (from.empty()) return;
  if (type == TensorType::F32) {
    std::memcpy(to.data(), from.data(), to.size());
    return;
  }
  assert(type == TensorType::BF16);
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::uint16_t bits = split_master(from[i]).parameter;  // as training rounds it
    std::memcpy(to.data() + i * sizeof(bits), &bits, sizeof(bits));
  }
}

}  // namespace athanor
