// SPDX-License-Identifier: Apache-2.0
// The layouts of token files: llm.c, nanoGPT, Megatron, or any file as bytes.
#pragma once

#include "executor/data/token_types.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace athanor {

/// The way to read a file without a header of its own. Auto: `.bin` as uint16 (nanoGPT), any other
/// file as bytes.
enum class TokenFormat { Auto, UInt8, UInt16, UInt32 };

/// Parses "auto", "bytes", "uint16" or "uint32". Throws InputError that names `where`.
[[nodiscard]] TokenFormat parse_token_format(std::string_view text, const std::string& where);

/// Consecutive tokens inside a file.
struct TokenLayout {
  TokenType type = TokenType::UInt8;
  std::size_t begin = 0;  ///< bytes before the first token
  std::int64_t count = 0;
};

/// Throws InputError that names `file` where its header or index tells of a type of another size
/// than `format`.
void check_stored_type(TokenType stored, TokenFormat format, const std::string& file);

/// Returns the layout of an llm.c file (magic 20240520: uint16, 20240801: uint32), unless `format`
/// takes all files as bytes; any other file is read as `format`. Throws InputError that names
/// `file`.
[[nodiscard]] TokenLayout parse_token_file(std::span<const std::byte> bytes, TokenFormat format,
                                           const std::string& file);

/// Whether a file begins as a Megatron index does.
[[nodiscard]] bool is_megatron_index(std::span<const std::byte> index) noexcept;

/// Returns the layout of the Megatron .bin of `bin_bytes` bytes that belongs to this .idx. Its
/// documents must lie one after the other, as Megatron writes them. Throws InputError that names
/// `file`.
[[nodiscard]] TokenLayout parse_megatron_index(std::span<const std::byte> index,
                                               std::size_t bin_bytes, const std::string& file);

}  // namespace athanor
