// SPDX-License-Identifier: Apache-2.0
#include "sim/base/printable.hpp"

#include <fmt/core.h>

#include <cstdint>

namespace athanor {
namespace {

std::uint8_t byte_of(char c) { return static_cast<std::uint8_t>(c); }

/// Bytes that the first byte of a character announces; 0 for a byte that begins none.
std::size_t announced_length(std::uint8_t first) {
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first < 0xE0) return 2;
  if (first >= 0xE0 && first < 0xF0) return 3;
  return first >= 0xF0 && first < 0xF5 ? 4 : 0;
}

/// Whether the second byte makes an overlong form, a surrogate or a number above U+10FFFF.
bool is_forbidden(std::uint8_t first, std::uint8_t second) {
  return (first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) ||
         (first == 0xF0 && second < 0x90) || (first == 0xF4 && second > 0x8F);
}

/// Whether a terminal may obey the character: C0, DEL, and C1 in its two bytes of UTF-8.
bool is_control(std::string_view character) {
  const std::uint8_t first = byte_of(character.front());
  if (character.size() == 1) return first < 0x20 || first == 0x7F;
  return character.size() == 2 && first == 0xC2 && byte_of(character[1]) < 0xA0;
}

void append_escaped(std::string& shown, std::string_view bytes) {
  for (const char c : bytes) {
    if (c == '\n') {
      shown += "\\n";
    } else if (c == '\t') {
      shown += "\\t";
    } else {
      shown += fmt::format("\\x{:02x}", byte_of(c));
    }
  }
}

}  // namespace

std::size_t utf8_length(std::string_view text) noexcept {
  if (text.empty()) return 0;
  const std::uint8_t first = byte_of(text.front());
  const std::size_t length = announced_length(first);
  if (length < 2) return length;
  if (text.size() < length || is_forbidden(first, byte_of(text[1]))) return 0;
  for (const char c : text.substr(1, length - 1)) {
    if ((byte_of(c) & 0xC0U) != 0x80U) return 0;
  }
  return length;
}

bool is_utf8(std::string_view text) noexcept {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

std::string printable(std::string_view text, LineEnds line_ends) {
  std::string shown;
  shown.reserve(text.size());
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const std::string_view character = text.substr(0, length == 0 ? 1 : length);
    const bool kept = character == "\n" && line_ends == LineEnds::Kept;
    if (length == 0 || (is_control(character) && !kept)) {
      append_escaped(shown, character);
    } else {
      shown += character;
    }
    text.remove_prefix(character.size());
  }
  return shown;
}

}  // namespace athanor
