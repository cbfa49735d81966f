// SPDX-License-Identifier: Apache-2.0
#include "executor/io/training_data.hpp"

#include "sim/base/errors.hpp"

#include <fmt/format.h>
#include <glob.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <utility>

namespace athanor {

namespace {

namespace fs = std::filesystem;

std::vector<std::string> matches(const std::string& pattern) {
  glob_t found{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  ::globfree(&found);
  return paths;
}

/// Drops the index of a Megatron pair whose tokens are named, too.
void drop_paired_indices(std::vector<std::string>& paths) {
  std::erase_if(paths, [all = paths](const std::string& path) {
    return path.ends_with(".idx") &&
           std::find(all.begin(), all.end(), fs::path(path).replace_extension(".bin").string()) !=
               all.end();
  });
}

bool is_folder(const std::string& path) {
  std::error_code unreadable;
  return fs::is_directory(path, unreadable);
}

PackedDataset open_packed(const std::string& folder, std::int64_t vocab_size,
                          std::int64_t sequence_length) {
  PackedDataset data(folder, vocab_size);
  if (data.index().sequence_length != sequence_length) {
    throw InputError(folder,
                     fmt::format("holds sequences of {} tokens, and the plan is for {}",
                                 data.index().sequence_length, sequence_length),
                     fmt::format("Tokenize with --seq {}, or profile and tune with --seq {}.",
                                 sequence_length, data.index().sequence_length));
  }
  return data;
}

}  // namespace

TokenFiles::TokenFiles(std::vector<TokenDataset> files, std::int64_t sequence_length)
    : files_(std::move(files)) {
  for (const TokenDataset& file : files_) {
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + file.num_windows(sequence_length));
  }
}

std::string TokenFiles::path() const {
  const std::string& first = files_.front().path();
  if (files_.size() == 1) return first;
  return fmt::format("{} .. {} ({} files)", first, files_.back().path(), files_.size());
}

std::int64_t TokenFiles::num_tokens() const {
  return std::accumulate(
      files_.begin(), files_.end(), std::int64_t{0},
      [](std::int64_t sum, const TokenDataset& file) { return sum + file.num_tokens(); });
}

void TokenFiles::check_all() const {
  for (const TokenDataset& file : files_) file.check_all();
}

void TokenFiles::read_sample(std::int64_t index, std::span<std::int64_t> inputs,
                             std::span<std::int64_t> targets) const {
  const std::int64_t window = index % num_samples();
  const auto end = std::upper_bound(ends_.begin(), ends_.end(), window);
  const auto file = static_cast<std::size_t>(end - ends_.begin());
  files_[file].read_sample(window - (file == 0 ? 0 : ends_[file - 1]), inputs, targets);
}

std::vector<std::string> expand_patterns(const std::vector<std::string>& paths) {
  std::vector<std::string> expanded;
  for (const std::string& path : paths) {
    const bool pattern = path.find_first_of("*?[") != std::string::npos;
    if (is_there(path) || !pattern) {
      expanded.push_back(path);
      continue;
    }
    const std::vector<std::string> found = matches(path);
    if (found.empty()) {
      throw InputError("--data", fmt::format("no file matches '{}'", path), "Check the pattern.");
    }
    expanded.insert(expanded.end(), found.begin(), found.end());
  }
  drop_paired_indices(expanded);
  return expanded;
}

TrainingData open_training_data(const std::vector<std::string>& paths, TokenFormat format,
                                std::int64_t vocab_size, std::int64_t sequence_length) {
  const std::vector<std::string> expanded = expand_patterns(paths);
  if (expanded.size() == 1 && is_folder(expanded.front())) {
    return open_packed(expanded.front(), vocab_size, sequence_length);
  }
  std::vector<TokenDataset> files;
  for (const std::string& path : expanded) {
    if (is_folder(path)) {
      throw InputError(path, "is a folder among token files", "Name one folder, or files alone.");
    }
    files.emplace_back(path, format, vocab_size);
  }
  return TokenFiles(std::move(files), sequence_length);
}

std::string describe(const TrainingData& data) {
  if (const auto* packed = std::get_if<PackedDataset>(&data)) {
    const PackedIndex& index = packed->index();
    return fmt::format("{}: {} tokens in {} documents, {} of them learnt", packed->path(),
                       index.tokens, index.documents, index.loss_tokens);
  }
  const TokenFiles& files = std::get<TokenFiles>(data);
  return fmt::format("{}: {} tokens", files.path(), files.num_tokens());
}

}  // namespace athanor
