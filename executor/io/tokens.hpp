// SPDX-License-Identifier: Apache-2.0
// Training tokens from a file: llm.c, nanoGPT, Megatron, or any file as bytes.
#pragma once

#include "executor/io/mapped_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace athanor {

/// How a file without a header of its own is read. Auto: `.bin` as uint16 (nanoGPT), else bytes.
enum class TokenFormat { Auto, UInt8, UInt16, UInt32 };

/// "auto", "bytes", "uint16" or "uint32". Throws InputError that names `where`.
[[nodiscard]] TokenFormat parse_token_format(std::string_view text, const std::string& where);

/// How one token is stored.
enum class TokenType { UInt8, Int8, Int16, UInt16, Int32, UInt32, Int64 };

/// Consecutive tokens inside a file.
struct TokenLayout {
  TokenType type = TokenType::UInt8;
  std::size_t begin = 0;  ///< bytes before the first token
  std::int64_t count = 0;
};

/// The layout of an llm.c file (magic 20240520: uint16, 20240801: uint32), else of `format`.
/// Throws InputError that names `file`.
[[nodiscard]] TokenLayout parse_token_file(std::span<const std::byte> bytes, TokenFormat format,
                                           const std::string& file);

/// The layout of the Megatron .bin of `bin_bytes` bytes that belongs to this .idx. Its documents
/// must lie one after the other, as Megatron writes them. Throws InputError that names `file`.
[[nodiscard]] TokenLayout parse_megatron_index(std::span<const std::byte> index,
                                               std::size_t bin_bytes, const std::string& file);

/// A stream of token ids. Reading is thread-safe.
class TokenDataset {
 public:
  /// `path`: the token file; for Megatron the .idx, the .bin beside it, or both without extension.
  /// Ids are checked against `vocab_size` when they are read.
  TokenDataset(const std::string& path, TokenFormat format, std::int64_t vocab_size);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return layout_.count; }
  [[nodiscard]] std::int64_t vocab_size() const noexcept { return vocab_size_; }

  /// Tokens [first, first + out.size()), which must lie within the file. Throws InputError with
  /// position and id where an id is not in [0, vocab_size).
  void read(std::int64_t first, std::span<std::int64_t> out) const;
  /// Reads every token once, to find a bad id before training starts.
  void check_all() const;

  /// Windows of `sequence` inputs, each with a target after it. Throws InputError when there is
  /// none.
  [[nodiscard]] std::int64_t num_windows(std::int64_t sequence) const;
  /// Where sample `index` of the endless stream of samples starts: windows one after the other,
  /// from the first again after the last. The tokens after the last whole window are not used.
  [[nodiscard]] std::int64_t sample_start(std::int64_t index, std::int64_t sequence) const;
  /// Sample `index`: inputs, and as targets the token after each. Equal lengths.
  void read_sample(std::int64_t index, std::span<std::int64_t> inputs,
                   std::span<std::int64_t> targets) const;

 private:
  struct Source {
    MappedFile file;
    TokenLayout layout;
  };
  static Source open(const std::string& path, TokenFormat format);
  TokenDataset(Source source, std::int64_t vocab_size);

  MappedFile file_;
  TokenLayout layout_;
  std::int64_t vocab_size_;
};

}  // namespace athanor
