// SPDX-License-Identifier: Apache-2.0
// Training data from whatever --data names: token files one after the other, packed tokens, or
// images.
#pragma once

#include "executor/data/image_dataset.hpp"
#include "executor/data/packed_dataset.hpp"
#include "executor/data/tokens.hpp"

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace athanor {

using TrainingData = std::variant<TokenDataset, PackedDataset, ImageDataset>;

/// Opens one folder of packed tokens, or the token files that names and patterns stand for
/// (token_files.hpp), in their order. Throws InputError when they do not fit a model of
/// `vocab_size` tokens and sequences of `sequence_length`.
[[nodiscard]] TrainingData open_training_data(const std::vector<std::string>& paths,
                                              TokenFormat format, std::int64_t vocab_size,
                                              std::int64_t sequence_length);

/// Opens one folder of images. Throws InputError when they do not fit the model.
[[nodiscard]] TrainingData open_image_data(const std::vector<std::string>& paths,
                                           const ImageClassifierConfig& model);

/// Number of samples before the data start again.
[[nodiscard]] std::int64_t num_samples(const TrainingData& data, std::int64_t sequence_length);

/// Describes the data in a line: path and size.
[[nodiscard]] std::string describe(const TrainingData& data);

}  // namespace athanor
