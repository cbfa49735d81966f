// SPDX-License-Identifier: Apache-2.0
#include "executor/data/training_data.hpp"

#include "executor/data/token_files.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/printable.hpp"

#include <fmt/format.h>

#include <filesystem>

namespace athanor {

namespace {

bool is_folder(const std::string& path) {
  std::error_code unreadable;
  return std::filesystem::is_directory(path, unreadable);
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

TrainingData open_training_data(const std::vector<std::string>& paths, TokenFormat format,
                                std::int64_t vocab_size, std::int64_t sequence_length) {
  const std::vector<std::string> files = expand_data(paths);
  if (files.size() == 1 && is_folder(files.front())) {
    return open_packed(files.front(), vocab_size, sequence_length);
  }
  for (const std::string& path : files) {
    if (is_folder(path)) {
      throw InputError(path, "is a folder among token files", "Name one folder, or files alone.");
    }
  }
  TokenDataset tokens(files, format, vocab_size);
  static_cast<void>(tokens.num_windows(sequence_length));  // throws where there is none
  return tokens;
}

TrainingData open_image_data(const std::vector<std::string>& paths,
                             const ImageClassifierConfig& model) {
  for (const std::string& path : paths) {
    if (paths.size() == 1 && is_folder(path)) continue;
    throw InputError(path, "is not one folder of prepared images, which this model trains on",
                     "Make one: athanor tokenize --model FOLDER --data IMAGES -o NEW.");
  }
  return ImageDataset(paths.front(), model);
}

std::int64_t num_samples(const TrainingData& data, std::int64_t sequence_length) {
  if (const auto* images = std::get_if<ImageDataset>(&data)) return images->num_samples();
  if (const auto* packed = std::get_if<PackedDataset>(&data)) return packed->num_samples();
  return std::get<TokenDataset>(data).num_windows(sequence_length);
}

std::string describe(const TrainingData& data) {
  if (const auto* images = std::get_if<ImageDataset>(&data)) {
    const ImageIndex& index = images->index();
    return fmt::format("{}: {} images of {} x {} with {} labels", printable(images->path()),
                       index.images, index.height, index.width, index.labels.size());
  }
  if (const auto* packed = std::get_if<PackedDataset>(&data)) {
    const PackedIndex& index = packed->index();
    return fmt::format("{}: {} tokens in {} documents, {} of them learnt",
                       printable(packed->path()), index.tokens, index.documents, index.loss_tokens);
  }
  const TokenDataset& tokens = std::get<TokenDataset>(data);
  return fmt::format("{}: {} tokens", printable(tokens.path()), tokens.num_tokens());
}

}  // namespace athanor
