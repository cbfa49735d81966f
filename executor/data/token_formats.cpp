// SPDX-License-Identifier: Apache-2.0
#include "executor/data/token_formats.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>
#include <optional>

namespace athanor {

namespace {

const char* const kMakeAgain = "The file is damaged or incomplete: make it again.";

/// Reads a `T` at byte `offset`, which must lie within `bytes`.
template <class T>
T load(std::span<const std::byte> bytes, std::size_t offset) noexcept {
  T value{};
  std::memcpy(&value, bytes.data() + offset, sizeof(T));
  return value;
}

// An llm.c file has a header of 256 int32 (magic, version, number of tokens), then the tokens.
constexpr std::size_t kLlmcHeaderBytes = 256 * sizeof(std::int32_t);

struct LlmcVersion {
  std::int32_t magic, version;
  TokenType type;
};
constexpr std::array<LlmcVersion, 2> kLlmcVersions{{
    {20240520, 1, TokenType::UInt16},
    {20240801, 7, TokenType::UInt32},
}};

std::optional<TokenLayout> parse_llmc(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < 3 * sizeof(std::int32_t)) return std::nullopt;
  const auto magic = load<std::int32_t>(bytes, 0);
  const auto version = load<std::int32_t>(bytes, 4);
  for (const LlmcVersion& known : kLlmcVersions) {
    if (magic != known.magic) continue;
    if (version != known.version) {
      throw InputError(file, fmt::format("llm.c data of version {}", version),
                       fmt::format("Version {} can be read.", known.version));
    }
    const auto count = load<std::int32_t>(bytes, 8);
    const std::int64_t expected = std::int64_t{count} * token_bytes(known.type);
    if (count < 0 || bytes.size() < kLlmcHeaderBytes ||
        expected != static_cast<std::int64_t>(bytes.size() - kLlmcHeaderBytes)) {
      throw InputError(file,
                       fmt::format("{} bytes, the header tells of {} tokens", bytes.size(), count),
                       kMakeAgain);
    }
    return TokenLayout{known.type, kLlmcHeaderBytes, count};
  }
  return std::nullopt;
}

TokenLayout raw_layout(std::size_t bytes, TokenType type, const std::string& file) {
  const auto width = static_cast<std::size_t>(token_bytes(type));
  if (bytes % width != 0) {
    throw InputError(file,
                     fmt::format("{} bytes are no whole number of {}-byte tokens", bytes, width),
                     "Name the stored type with --tokens-dtype bytes, uint16 or uint32.");
  }
  return {type, 0, static_cast<std::int64_t>(bytes / width)};
}

bool is_bin(const std::string& file) { return file.ends_with(".bin"); }

// A Megatron index has a magic, u64 version, u8 type, u64 sequences and u64 documents. Then come
// the i32 lengths of all sequences, their i64 positions (bytes), and the documents' ends.
constexpr std::string_view kMegatronMagic("MMIDIDX\0\0", 9);
constexpr std::size_t kMegatronVersion = kMegatronMagic.size();
constexpr std::size_t kMegatronType = kMegatronVersion + sizeof(std::uint64_t);
constexpr std::size_t kMegatronSequences = kMegatronType + sizeof(std::uint8_t);
constexpr std::size_t kMegatronDocuments = kMegatronSequences + sizeof(std::uint64_t);
constexpr std::size_t kMegatronHeaderBytes = kMegatronDocuments + sizeof(std::uint64_t);

TokenType megatron_type(std::uint8_t code, const std::string& file) {
  switch (code) {
    case 1:
      return TokenType::UInt8;
    case 2:
      return TokenType::Int8;
    case 3:
      return TokenType::Int16;
    case 4:
      return TokenType::Int32;
    case 5:
      return TokenType::Int64;
    case 8:
      return TokenType::UInt16;
    default:
      throw InputError(file, fmt::format("type code {} is no integer type", code),
                       "Store token ids as uint16 or int32.");
  }
}

/// Throws unless the three tables fill a file of `size` bytes.
void check_table_size(std::uint64_t sequences, std::uint64_t documents, std::size_t size,
                      const std::string& file) {
  constexpr std::uint64_t kSequenceBytes = sizeof(std::int32_t) + sizeof(std::int64_t);
  constexpr std::uint64_t kDocumentBytes = sizeof(std::int64_t);
  const std::uint64_t room = size - kMegatronHeaderBytes;
  if (sequences > room / kSequenceBytes || documents > room / kDocumentBytes ||
      sequences * kSequenceBytes + documents * kDocumentBytes != room) {
    throw InputError(file,
                     fmt::format("{} bytes do not hold {} sequences and {} documents", size,
                                 sequences, documents),
                     kMakeAgain);
  }
}

/// Counts the tokens of all sequences, which must lie one after the other.
std::int64_t count_megatron_tokens(std::span<const std::byte> index, std::uint64_t sequences,
                                   std::int64_t width, const std::string& file) {
  const std::size_t positions = kMegatronHeaderBytes + sequences * sizeof(std::int32_t);
  std::int64_t count = 0;
  for (std::uint64_t i = 0; i < sequences; ++i) {
    const auto length = load<std::int32_t>(index, kMegatronHeaderBytes + i * sizeof(std::int32_t));
    const auto position = load<std::int64_t>(index, positions + i * sizeof(std::int64_t));
    if (length < 0 || position != count * width) {
      throw InputError(file,
                       fmt::format("sequence {} of {} tokens at byte {}, expected at byte {}", i,
                                   length, position, count * width),
                       "Sequences must lie one after the other: make the pair again.");
    }
    count += length;
  }
  return count;
}

}  // namespace

TokenFormat parse_token_format(std::string_view text, const std::string& where) {
  if (text == "auto") return TokenFormat::Auto;
  if (text == "bytes") return TokenFormat::UInt8;
  if (text == "uint16") return TokenFormat::UInt16;
  if (text == "uint32") return TokenFormat::UInt32;
  throw InputError(where, fmt::format("unknown token type '{}'", text),
                   "Use one of auto, bytes, uint16, uint32.");
}

void check_stored_type(TokenType stored, TokenFormat format, const std::string& file) {
  const bool agrees =
      format == TokenFormat::Auto || token_bytes(stored) == (format == TokenFormat::UInt16   ? 2
                                                             : format == TokenFormat::UInt32 ? 4
                                                                                             : 1);
  if (agrees) return;
  throw InputError(
      file,
      fmt::format("says that a token has {} bytes, and --tokens-dtype names another type",
                  token_bytes(stored)),
      "Leave the option out: it is for files without a header.");
}

TokenLayout parse_token_file(std::span<const std::byte> bytes, TokenFormat format,
                             const std::string& file) {
  if (format != TokenFormat::UInt8) {
    if (const std::optional<TokenLayout> layout = parse_llmc(bytes, file)) {
      check_stored_type(layout->type, format, file);
      return *layout;
    }
  }
  switch (format) {
    case TokenFormat::UInt8:
      return raw_layout(bytes.size(), TokenType::UInt8, file);
    case TokenFormat::UInt16:
      return raw_layout(bytes.size(), TokenType::UInt16, file);
    case TokenFormat::UInt32:
      return raw_layout(bytes.size(), TokenType::UInt32, file);
    case TokenFormat::Auto:
      break;
  }
  return raw_layout(bytes.size(), is_bin(file) ? TokenType::UInt16 : TokenType::UInt8, file);
}

bool is_megatron_index(std::span<const std::byte> index) noexcept {
  return index.size() >= kMegatronMagic.size() &&
         std::memcmp(index.data(), kMegatronMagic.data(), kMegatronMagic.size()) == 0;
}

TokenLayout parse_megatron_index(std::span<const std::byte> index, std::size_t bin_bytes,
                                 const std::string& file) {
  if (index.size() < kMegatronHeaderBytes || !is_megatron_index(index)) {
    throw InputError(file, "is no Megatron index", "It must start with MMIDIDX.");
  }
  const auto version = load<std::uint64_t>(index, kMegatronVersion);
  if (version != 1) {
    throw InputError(file, fmt::format("Megatron index of version {}", version),
                     "Version 1 can be read.");
  }
  const TokenType type = megatron_type(load<std::uint8_t>(index, kMegatronType), file);
  const auto sequences = load<std::uint64_t>(index, kMegatronSequences);
  check_table_size(sequences, load<std::uint64_t>(index, kMegatronDocuments), index.size(), file);
  const std::int64_t width = token_bytes(type);
  const std::int64_t count = count_megatron_tokens(index, sequences, width, file);
  if (count * width != static_cast<std::int64_t>(bin_bytes)) {
    throw InputError(
        file, fmt::format("tells of {} bytes of tokens, the .bin has {}", count * width, bin_bytes),
        "The two files do not belong together, or one is incomplete.");
  }
  return {type, 0, count};
}

}  // namespace athanor
