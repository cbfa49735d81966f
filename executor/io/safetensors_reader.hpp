// SPDX-License-Identifier: Apache-2.0
// Reads safetensors files.
#pragma once

#include "executor/io/mapped_file.hpp"
#include "executor/io/safetensors_header.hpp"

#include <cstddef>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>

namespace athanor {

/// An open file. Throws InputError when its layout is broken (parse_safetensors).
class SafetensorsReader {
 public:
  explicit SafetensorsReader(const std::string& path);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] std::span<const std::byte> file_bytes() const noexcept { return file_.bytes(); }
  [[nodiscard]] const SafetensorsHeader& header() const noexcept { return header_; }
  /// Returns nullptr when the file has no such tensor.
  [[nodiscard]] const TensorEntry* find(std::string_view name) const noexcept;
  /// The mapped bytes of a tensor. Where the file may shrink meanwhile, use read_bytes().
  [[nodiscard]] std::span<const std::byte> data(const TensorEntry& tensor) const;
  /// Reads bytes of the file from `offset` on. Throws InputError when it has shrunk.
  void read_file(std::size_t offset, std::span<std::byte> to) const { file_.read(offset, to); }
  /// Reads bytes of a tensor from `offset` on. Throws InputError when the file has shrunk or cannot
  /// be read; through data() either would end the process.
  void read_bytes(const TensorEntry& tensor, std::size_t offset, std::span<std::byte> to) const;
  /// Widens to fp32. Throws InputError unless the tensor is F32, F16 or BF16 and of `to`'s size.
  void read(const TensorEntry& tensor, std::span<float> to) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, std::size_t, std::less<>> index_;  ///< name -> place in header_.tensors
};

}  // namespace athanor
