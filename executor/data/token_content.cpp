// SPDX-License-Identifier: Apache-2.0
#include "executor/data/token_content.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/file_kinds.hpp"
#include "sim/base/printable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>

namespace athanor {
namespace {

/// A vocabulary of bytes has some ids more for marks such as the end of a document.
constexpr std::int64_t kLargestByteVocabulary = 512;
constexpr std::size_t kSample = 1 << 16;
constexpr std::size_t kHeaderWords = 256;

std::string tokenize_hint(const std::string& file) {
  return fmt::format("Make tokens of it: athanor tokenize --model FOLDER --data {} -o TOKENS.",
                     printable(file));
}

std::string_view sample_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), std::min(bytes.size(), kSample)};
}

/// Whether a block is UTF-8 without control characters. The block may end within a character.
bool is_readable(std::string_view block) {
  constexpr std::size_t kFew = 64;
  constexpr std::size_t kLongest = 4;
  if (block.size() < kFew) return false;
  std::size_t length = 1;
  for (std::string_view rest = block; !rest.empty(); rest.remove_prefix(length)) {
    const auto first = static_cast<unsigned char>(rest.front());
    if (first < ' ' && rest.front() != '\n' && rest.front() != '\r' && rest.front() != '\t') {
      return false;
    }
    length = utf8_length(rest);
    if (length == 0) return rest.size() < kLongest && block.size() == kSample;
  }
  return true;
}

template <class Word>
Word word(std::span<const std::byte> bytes, std::size_t index) {
  Word value{};
  std::memcpy(&value, bytes.data() + index * sizeof(Word), sizeof(Word));
  return value;
}

/// Whether the 16-bit words of a file are ids of 32 bits: the upper half of each is then no more
/// than the vocabulary's.
bool looks_32_bit(std::span<const std::byte> bytes, std::int64_t vocab_size) {
  constexpr std::size_t kFewIds = 16;
  const std::size_t ids = std::min(bytes.size(), kSample) / sizeof(std::uint32_t);
  if (bytes.size() % sizeof(std::uint32_t) != 0 || ids < kFewIds) return false;
  const std::int64_t most = (vocab_size - 1) >> 16;
  for (std::size_t i = 0; i < ids; ++i) {
    if (word<std::uint16_t>(bytes, 2 * i + 1) > most) return false;
  }
  return true;
}

/// Whether the file begins with 256 words of which the first three alone are not zero, as llm.c's
/// do.
bool has_header(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderWords * sizeof(std::int32_t)) return false;
  constexpr std::size_t kUsed = 3;
  if (word<std::int32_t>(bytes, 0) == 0) return false;
  for (std::size_t i = kUsed; i < kHeaderWords; ++i) {
    if (word<std::int32_t>(bytes, i) != 0) return false;
  }
  return true;
}

void check_text(std::string_view sample, std::int64_t vocab_size, const std::string& file) {
  if (vocab_size > kLargestByteVocabulary) {
    throw InputError(
        file,
        fmt::format("holds no tokens that are known, and its bytes are no tokens of "
                    "the model's vocabulary of {}",
                    vocab_size),
        tokenize_hint(file) + " --tokens-dtype says what a file without header holds.");
  }
  if (sample.find('\0') != std::string_view::npos) {
    throw InputError(file, "is no text: it has bytes that are zero",
                     "Name the type of its tokens with --tokens-dtype.");
  }
}

void check_words(std::span<const std::byte> bytes, TokenType type, std::int64_t vocab_size,
                 const std::string& file) {
  if (has_header(bytes)) {
    throw InputError(file,
                     fmt::format("begins with a header of 256 words, and {} is no known magic",
                                 word<std::int32_t>(bytes, 0)),
                     "llm.c's are 20240520 (uint16) and 20240801 (uint32): make the file again.");
  }
  if (is_readable(sample_of(bytes))) {
    throw InputError(file, "is text, no binary tokens", tokenize_hint(file));
  }
  if (type == TokenType::UInt16 && looks_32_bit(bytes, vocab_size)) {
    throw InputError(file,
                     "looks like ids of 32 bits: as 16-bit ids, every second one is the upper half "
                     "of the one before",
                     "Name the type: --tokens-dtype uint32.");
  }
}

}  // namespace

void check_kind(std::span<const std::byte> bytes, TokenFormat format, const std::string& file) {
  if (format == TokenFormat::UInt8) return;
  const std::string_view sample = sample_of(bytes);
  require_fetched(sample, file);
  const auto kind = file_kind(sample);
  if (!kind) return;
  throw InputError(file, fmt::format("is {}, no tokens", kind->name),
                   std::string(kind->hint) + " --tokens-dtype bytes takes any bytes as tokens.");
}

void check_content(std::span<const std::byte> bytes, TokenType type, TokenFormat format,
                   std::int64_t vocab_size, const std::string& file) {
  if (format != TokenFormat::Auto) return;
  if (type == TokenType::UInt8) {
    check_text(sample_of(bytes), vocab_size, file);
  } else {
    check_words(bytes, type, vocab_size, file);
  }
}

}  // namespace athanor
