// SPDX-License-Identifier: Apache-2.0
#include "executor/io/safetensors_header.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/file_kinds.hpp"
#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>
#include <optional>
#include <tuple>

namespace athanor {

namespace {

constexpr std::uint64_t kMaxHeaderBytes = 100'000'000;  ///< the limit of the reference reader
constexpr std::size_t kLengthBytes = sizeof(std::uint64_t);
constexpr std::size_t kHeaderAlignment = 8;  ///< the data begin at a multiple of it
const char* const kDamaged = "The file is damaged or incomplete: fetch or write it again.";

std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
  std::uint64_t length = 0;
  if (bytes.size() < kLengthBytes) {
    throw InputError(file, fmt::format("{} bytes are too few for a header", bytes.size()),
                     kDamaged);
  }
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()),
                               std::min<std::size_t>(bytes.size(), 64));
  require_fetched(start, file);
  std::memcpy(&length, bytes.data(), kLengthBytes);
  const auto kind = file_kind(start);
  if (kind && length > kMaxHeaderBytes) {
    throw InputError(file, fmt::format("is {}, no safetensors file", kind->name),
                     std::string(kind->hint));
  }
  if (length > kMaxHeaderBytes || length > bytes.size() - kLengthBytes) {
    throw InputError(file,
                     fmt::format("a header of {} bytes in a file of {}", length, bytes.size()),
                     "The file is damaged, or no safetensors file.");
  }
  return {reinterpret_cast<const char*>(bytes.data()) + kLengthBytes,
          static_cast<std::size_t>(length)};
}

std::map<std::string, std::string> read_metadata(JsonReader json) {
  std::map<std::string, std::string> metadata;
  for (const std::string& key : json.keys()) metadata[key] = json.key(key).string();
  return metadata;
}

TensorType read_type(const JsonReader& json) {
  const std::string name = json.string();
  const std::optional<TensorType> type = tensor_type(name);
  if (!type) json.reject("unknown type '" + name + "'", "Convert the tensor to F32 or BF16.");
  return *type;
}

/// Reads a shape. Throws when the tensor has more bytes than a file can hold.
std::vector<std::int64_t> read_shape(const JsonReader& json, TensorType type) {
  std::vector<std::int64_t> shape;
  std::int64_t bytes = size_of(type);
  for (const JsonReader& item : json.items()) {
    shape.push_back(item.integer(0));
    if (shape.back() > 0 && bytes > kMaxCount / shape.back()) {
      json.reject("more elements than a file can hold", kDamaged);
    }
    bytes *= shape.back();
  }
  return shape;
}

TensorEntry read_tensor(const std::string& name, JsonReader json) {
  TensorEntry tensor;
  tensor.name = name;
  tensor.type = read_type(json.key("dtype"));
  tensor.shape = read_shape(json.key("shape"), tensor.type);
  const JsonReader offsets = json.key("data_offsets");
  json.reject_other_keys();
  const std::vector<JsonReader> items = offsets.items();
  if (items.size() != 2) offsets.reject("expected a begin and an end", kDamaged);
  tensor.offset = items[0].integer(0);
  const std::int64_t extent = items[1].integer(tensor.offset) - tensor.offset;
  if (extent != tensor.bytes()) {
    offsets.reject(fmt::format("{} bytes for a tensor of {}", extent, tensor.bytes()), kDamaged);
  }
  return tensor;
}

/// Sorts by position and throws at the first hole, overlap or end beyond the data.
void check_positions(std::vector<TensorEntry>& tensors, std::size_t data_bytes,
                     const std::string& file) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::tuple(a.offset, a.bytes(), std::string_view(a.name)) <
           std::tuple(b.offset, b.bytes(), std::string_view(b.name));
  });
  std::int64_t end = 0;
  for (const TensorEntry& tensor : tensors) {
    if (tensor.offset != end) {
      throw InputError(
          file + ":" + tensor.name,
          fmt::format("begins at byte {} of the data, expected {}", tensor.offset, end), kDamaged);
    }
    end += tensor.bytes();
  }
  if (static_cast<std::uint64_t>(end) != data_bytes) {
    throw InputError(file, fmt::format("{} bytes of data, the header tells of {}", data_bytes, end),
                     kDamaged);
  }
}

}  // namespace

std::int64_t TensorEntry::num_elements() const noexcept {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text = header_text(bytes, file);
  const nlohmann::json document = parse_json(text, file);
  JsonReader json(document, ValuePath(file));
  SafetensorsHeader header;
  header.data_begin = kLengthBytes + text.size();
  for (const std::string& name : json.keys()) {
    if (name == "__metadata__") {
      header.metadata = read_metadata(json.key(name));
    } else {
      header.tensors.push_back(read_tensor(name, json.key(name)));
    }
  }
  check_positions(header.tensors, bytes.size() - header.data_begin, file);
  return header;
}

std::string make_safetensors_header(std::vector<TensorEntry>& tensors,
                                    const std::map<std::string, std::string>& metadata) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!metadata.empty()) json["__metadata__"] = metadata;
  std::int64_t offset = 0;
  for (TensorEntry& tensor : tensors) {
    tensor.offset = offset;
    offset += tensor.bytes();
    json[tensor.name] = {{"dtype", name_of(tensor.type)},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.offset, offset}}};
  }
  std::string text = json.dump();
  text.resize((text.size() + kHeaderAlignment - 1) / kHeaderAlignment * kHeaderAlignment, ' ');
  const std::uint64_t length = text.size();
  return std::string(reinterpret_cast<const char*>(&length), sizeof(length)) + text;
}

}  // namespace athanor
