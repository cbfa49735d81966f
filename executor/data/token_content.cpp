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

/// Whether a file of words is one of ids that are twice as wide: the upper half of each is then no
/// more than `most`.
template <class Word>
bool looks_twice_as_wide(std::span<const std::byte> bytes, std::int64_t most) {
  constexpr std::size_t kFewIds = 16;
  constexpr std::size_t kWidth = 2 * sizeof(Word);
  const std::size_t ids = std::min(bytes.size(), kSample) / kWidth;
  if (bytes.size() % kWidth != 0 || ids < kFewIds) return false;
  for (std::size_t i = 0; i < ids; ++i) {
    if (word<Word>(bytes, 2 * i + 1) > most) return false;
  }
  return true;
}

/// Whether a sample is zeros alone, which are ids of any width.
bool is_zero(std::span<const std::byte> bytes) {
  const auto sample = sample_of(bytes);
  return std::all_of(sample.begin(), sample.end(), [](char c) { return c == 0; });
}

/// Refuses ids of 64 and 32 bits that would be read as narrower ones. Zeros are taken where their
/// type was named.
void check_width(std::span<const std::byte> bytes, TokenType type, TokenFormat format,
                 std::int64_t vocab_size, const std::string& file) {
  const bool is_short = type == TokenType::UInt16;
  const bool is_told = format != TokenFormat::Auto;
  if (type == TokenType::UInt8 || (is_told && is_zero(bytes))) return;
  if (is_short && !looks_twice_as_wide<std::uint16_t>(bytes, (vocab_size - 1) >> 16)) return;
  if (looks_twice_as_wide<std::uint32_t>(bytes, 0) && !is_zero(bytes)) {
    throw InputError(file, "looks like ids of 64 bits: of each, the upper half is zero",
                     "Write them with 32 bits: numpy.fromfile(FILE, 'int64').astype('uint32')"
                     ".tofile('tokens.bin'), and give --tokens-dtype uint32.");
  }
  if (!is_short) return;
  throw InputError(file,
                   "looks like ids of 32 bits: as 16-bit ids, every second one is the upper half "
                   "of the one before",
                   "Name the type: --tokens-dtype uint32.");
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

void check_words(std::span<const std::byte> bytes, const std::string& file) {
  if (has_header(bytes)) {
    throw InputError(file,
                     fmt::format("begins with a header of 256 words, and {} is no known magic",
                                 word<std::int32_t>(bytes, 0)),
                     "llm.c's are 20240520 (uint16) and 20240801 (uint32): make the file again.");
  }
  if (is_readable(sample_of(bytes))) {
    throw InputError(file, "is text, no binary tokens", tokenize_hint(file));
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
  if (format == TokenFormat::Auto && type == TokenType::UInt8) {
    check_text(sample_of(bytes), vocab_size, file);
  } else if (format == TokenFormat::Auto) {
    check_words(bytes, file);
  }
  check_width(bytes, type, format, vocab_size, file);
}

}  // namespace athanor
