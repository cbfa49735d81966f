// SPDX-License-Identifier: Apache-2.0
// Training data from whatever --data names: token files one after the other, or packed tokens.
#pragma once

#include "executor/io/packed_dataset.hpp"
#include "executor/io/tokens.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <variant>
#include <vector>

namespace athanor {

/// Windows of several token files, one file after the other and over again. Each window lies within
/// one file.
class TokenFiles {
 public:
  /// Throws InputError when a file is too short for one window.
  TokenFiles(std::vector<TokenDataset> files, std::int64_t sequence_length);

  [[nodiscard]] std::string path() const;
  [[nodiscard]] std::int64_t num_tokens() const;
  [[nodiscard]] std::int64_t num_samples() const noexcept { return ends_.back(); }
  void check_all() const;
  /// Reads sample `index`: inputs, and as targets the token after each.
  void read_sample(std::int64_t index, std::span<std::int64_t> inputs,
                   std::span<std::int64_t> targets) const;

 private:
  std::vector<TokenDataset> files_;
  std::vector<std::int64_t> ends_;  ///< [file]: windows up to its end
};

using TrainingData = std::variant<TokenFiles, PackedDataset>;

/// Returns `paths` with patterns (`*`, `?`, `[..]`) replaced by the files that match, sorted. A
/// file of that very name comes first. A Megatron pair counts once. Throws InputError where nothing
/// matches.
[[nodiscard]] std::vector<std::string> expand_patterns(const std::vector<std::string>& paths);

/// Opens one folder of packed tokens, or token files in the given order. Throws InputError when
/// they do not fit a model of `vocab_size` tokens and sequences of `sequence_length`.
[[nodiscard]] TrainingData open_training_data(const std::vector<std::string>& paths,
                                              TokenFormat format, std::int64_t vocab_size,
                                              std::int64_t sequence_length);

/// Describes the data in a line: path and size.
[[nodiscard]] std::string describe(const TrainingData& data);

}  // namespace athanor
