// SPDX-License-Identifier: Apache-2.0
// The safetensors format: an 8-byte little-endian header length, a JSON header, then the tensors'
// bytes without holes.
#pragma once

#include "executor/io/mapped_file.hpp"
#include "executor/io/tensor_type.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
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

/// Validates the whole layout: types, shapes that fit their extents, no overlap, no hole, nothing
/// outside the file. Throws InputError(file:tensor).
[[nodiscard]] SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes,
                                                  const std::string& file);

class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] const SafetensorsHeader& header() const noexcept { return header_; }
  /// nullptr when the file has no such tensor.
  [[nodiscard]] const TensorEntry* find(std::string_view name) const noexcept;
  [[nodiscard]] std::span<const std::byte> data(const TensorEntry& tensor) const;
  /// Widens to fp32. Throws InputError unless the tensor is F32, F16 or BF16 and of `to`'s size.
  void read(const TensorEntry& tensor, std::span<float> to) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;
};

/// Writes one file, tensor after tensor. The file is incomplete until finish(); readers refuse it.
class SafetensorsWriter {
 public:
  /// Writes the header; offsets in `tensors` are assigned in the given order. Throws Error with the
  /// system's reason.
  SafetensorsWriter(std::string path, std::vector<TensorEntry> tensors,
                    const std::map<std::string, std::string>& metadata);
  ~SafetensorsWriter();
  SafetensorsWriter(const SafetensorsWriter&) = delete;
  SafetensorsWriter& operator=(const SafetensorsWriter&) = delete;

  /// Bytes of the next tensor, which must be `name`.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Rounds to the next tensor's type, F32 or BF16.
  void write(std::string_view name, std::span<const float> values);
  /// Throws Error unless every tensor was written; makes the file durable.
  void finish();

 private:
  void write_all(std::span<const std::byte> bytes);

  std::string path_;
  std::vector<TensorEntry> tensors_;
  std::size_t next_ = 0;
  int descriptor_ = -1;
};

}  // namespace athanor
