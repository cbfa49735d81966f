// SPDX-License-Identifier: Apache-2.0
// The safetensors format: an 8-byte little-endian header length, a JSON header, then the tensors'
// bytes without holes.
#pragma once

#include "executor/io/tensor_type.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace athanor {

struct TensorEntry {
  std::string name;
  TensorType type = TensorType::F32;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  ///< bytes from the end of the header
  [[nodiscard]] std::int64_t num_elements() const noexcept;
  [[nodiscard]] Bytes bytes() const noexcept { return num_elements() * size_of(type); }
};

struct SafetensorsHeader {
  std::vector<TensorEntry> tensors;  ///< in the order of their bytes
  std::map<std::string, std::string> metadata;
  std::size_t data_begin = 0;  ///< bytes from the start of the file
};

/// Reads the header of a file and validates the whole layout: types, shapes that fit their extents,
/// no overlap, no hole, nothing outside the file. Throws InputError(file:tensor).
[[nodiscard]] SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes,
                                                  const std::string& file);

/// Returns a file's first bytes: the header's length and its JSON text, padded with spaces. Assigns
/// offsets to `tensors` in the given order.
[[nodiscard]] std::string make_safetensors_header(
    std::vector<TensorEntry>& tensors, const std::map<std::string, std::string>& metadata);

}  // namespace athanor
