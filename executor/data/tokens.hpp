// SPDX-License-Identifier: Apache-2.0
// Training tokens from files, in any format of token_formats.hpp.
#pragma once

#include "executor/data/token_formats.hpp"
#include "executor/io/mapped_file.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// A stream of token ids from one file, or from several in their order. Reading is thread-safe.
class TokenDataset {
 public:
  /// `path` is the token file. For Megatron it is the .idx, the .bin beside it, or their common
  /// name without extension. Ids are checked against `vocab_size` when they are read. Throws
  /// InputError where the content can be no tokens of such a vocabulary (token_content.hpp).
  TokenDataset(const std::string& path, TokenFormat format, std::int64_t vocab_size);
  /// Joins the files' tokens to one stream. Windows cross the borders between files.
  TokenDataset(const std::vector<std::string>& paths, TokenFormat format, std::int64_t vocab_size);

  /// Returns the path of the file, or of the first of several with their number.
  [[nodiscard]] const std::string& path() const noexcept { return name_; }
  [[nodiscard]] std::int64_t num_tokens() const noexcept { return num_tokens_; }
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
  struct Part {
    MappedFile file;
    TokenLayout layout;
    std::int64_t first = 0;  ///< its first token in the stream
  };
  static Part open(const std::string& path, TokenFormat format, std::int64_t vocab_size);
  void read_part(const Part& part, std::int64_t first, std::span<std::int64_t> out) const;

  std::vector<Part> parts_;
  std::string name_;
  std::int64_t num_tokens_ = 0;
  std::int64_t vocab_size_;
};

}  // namespace athanor
