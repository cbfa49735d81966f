// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files.
#pragma once

#include "executor/io/safetensors_header.hpp"

#include <cstddef>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

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

  /// Writes the bytes of the next tensor, which must be `name`.
  void write(std::string_view name, std::span<const std::byte> bytes);
  /// Writes the next tensor, rounding to its type, F32 or BF16.
  void write(std::string_view name, std::span<const float> values);
  /// Makes the file durable. Throws Error unless every tensor was written.
  void finish();

 private:
  void write_all(std::span<const std::byte> bytes);

  std::string path_;
  std::vector<TensorEntry> tensors_;
  std::size_t next_ = 0;
  int descriptor_ = -1;
};

}  // namespace athanor
