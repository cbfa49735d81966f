// SPDX-License-Identifier: Apache-2.0
#include "executor/data/shard_files.hpp"

#include "executor/io/mapped_file.hpp"
#include "sim/base/errors.hpp"
#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>
#include <zlib.h>

#include <charconv>
#include <filesystem>
#include <span>

namespace athanor {

namespace {

std::uint32_t read_crc32(const JsonReader& json) {
  constexpr std::size_t kDigits = 8;
  constexpr int kHexadecimal = 16;
  const std::string text = json.string();
  std::uint32_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, kHexadecimal);
  if (text.size() != kDigits || error != std::errc() || stop != end) {
    json.reject("is no CRC-32 of 8 hexadecimal digits", kTokenizeAgain);
  }
  return value;
}

/// Reads a name of a file in the folder itself.
std::string read_file_name(const JsonReader& json) {
  std::string name = json.string();
  if (name.empty() || name == "." || name == ".." || name.find('/') != std::string::npos ||
      name.find('\0') != std::string::npos) {
    json.reject("is no name of a file in the folder", kTokenizeAgain);
  }
  return name;
}

}  // namespace

ShardFile read_shard_file(JsonReader& json) {
  return {.file = read_file_name(json.key("file")),
          .bytes = json.key("bytes").integer(1),
          .crc32 = read_crc32(json.key("crc32"))};
}

SafetensorsReader open_shard_file(const std::string& folder, const ShardFile& entry) {
  SafetensorsReader shard((std::filesystem::path(folder) / entry.file).string());
  const auto bytes = static_cast<Bytes>(shard.file_bytes().size());
  if (bytes != entry.bytes) {
    throw InputError(shard.path(),
                     fmt::format("has {} bytes, index.json says {}", bytes, entry.bytes),
                     kDamagedFolder);
  }
  return shard;
}

void check_shard_sum(const SafetensorsReader& shard, std::uint32_t crc32) {
  uLong found = 0;
  read_in_pieces(
      shard.file_bytes().size(),
      [&](std::size_t offset, std::span<std::byte> to) { shard.read_file(offset, to); },
      [&](std::span<const std::byte> piece) {
        found = ::crc32_z(found, reinterpret_cast<const Bytef*>(piece.data()), piece.size());
      });
  if (static_cast<std::uint32_t>(found) == crc32) return;
  throw InputError(shard.path(), "its checksum is not that of index.json", kDamagedFolder);
}

}  // namespace athanor
