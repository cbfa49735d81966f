// SPDX-License-Identifier: Apache-2.0
#include "executor/io/safetensors_reader.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <vector>

namespace athanor {

SafetensorsReader::SafetensorsReader(const std::string& path)
    : file_(path), header_(parse_safetensors(file_.bytes(), path)) {
  for (const TensorEntry& tensor : header_.tensors) index_.emplace(tensor.name, index_.size());
}

const TensorEntry* SafetensorsReader::find(std::string_view name) const noexcept {
  const auto entry = index_.find(name);
  return entry == index_.end() ? nullptr : &header_.tensors[entry->second];
}

std::span<const std::byte> SafetensorsReader::data(const TensorEntry& tensor) const {
  return file_.bytes().subspan(header_.data_begin + static_cast<std::size_t>(tensor.offset),
                               static_cast<std::size_t>(tensor.bytes()));
}

void SafetensorsReader::read_bytes(const TensorEntry& tensor, std::size_t offset,
                                   std::span<std::byte> to) const {
  file_.read(header_.data_begin + static_cast<std::size_t>(tensor.offset) + offset, to);
}

void SafetensorsReader::read(const TensorEntry& tensor, std::span<float> to) const {
  const std::string where = path() + ":" + tensor.name;
  if (!widens_to_float(tensor.type)) {
    throw InputError(where, fmt::format("type {} cannot be read as fp32", name_of(tensor.type)),
                     "Convert the tensor to F32, F16 or BF16.");
  }
  if (tensor.num_elements() != static_cast<std::int64_t>(to.size())) {
    throw InputError(where,
                     fmt::format("{} elements, expected {}", tensor.num_elements(), to.size()),
                     "Use a file of the same model.");
  }
  std::vector<std::byte> stored(static_cast<std::size_t>(tensor.bytes()));
  read_bytes(tensor, 0, stored);
  widen(stored, tensor.type, to);
}

}  // namespace athanor
