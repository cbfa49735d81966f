// SPDX-License-Identifier: Apache-2.0
// Training tokens from a file, in any format of token_formats.hpp.
#pragma once

#include "executor/io/mapped_file.hpp"
#include "executor/io/token_formats.hpp"

#include <cstdint>
#include <span>
#include <string>

namespace athanor {

/// A stream of token ids from one file. Reading is thread-safe.
class TokenDataset {
 public:
  /// `path` is the token file. For Megatron it is the .idx, the .bin beside it, or their common
  /// name without extension. Ids are checked against `vocab_size` when they are read.
  TokenDataset(const std::string& path, TokenFormat format, std::int64_t vocab_size);

  [[nodiscard]] const std::string& path() const noexcept { return file_.path(); }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return layout_.count; }
  [[nodiscard]] std::int64_t vocab_size() const noexcept { return vocab_size_; }

  /// Reads tokens [first, first + out.size()). Throws Error when they reach beyond the file,
  /// InputError with position and id when an id is not in [0, vocab_size).
  void read(std::int64_t first, std::span<std::int64_t> out) const;
  /// Reads every token once, to find a bad id before training starts.
  void check_all() const;

  /// Number of windows of `sequence` inputs, each with a target after it. Throws InputError when
  /// there is none.
  [[nodiscard]] std::int64_t num_windows(std::int64_t sequence) const;
  /// Returns the first token of sample `index` of the endless stream of samples. Samples are the
  /// windows one after the other; after the last comes the first again. Tokens after the last whole
  /// window are not used.
  [[nodiscard]] std::int64_t sample_start(std::int64_t index, std::int64_t sequence) const;
  /// Reads sample `index`: inputs, and as targets the token after each. Both spans have one length,
  /// the sequence's.
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
