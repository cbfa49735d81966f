// SPDX-License-Identifier: Apache-2.0
// The weights that `--model` stands for, so that they are read or refused and never passed over.
#pragma once

#include "executor/io/hf_folder_reader.hpp"
#include "sim/model/architecture.hpp"

#include <memory>
#include <string>

namespace athanor {

inline constexpr const char* kWeightFile = "model.safetensors";
inline constexpr const char* kWeightIndex = "model.safetensors.index.json";

/// A model to train, and the weights that it starts from.
struct ModelSource {
  Architecture architecture;
  std::shared_ptr<const HfFolder> weights;  ///< null: fresh weights
};

enum class Weights { AsFound, Fresh };

/// Opens a built-in name, a config.json or a Hugging Face folder. Weights are fresh where `wanted`
/// says so and where there are none: for a name, or for a configuration without weights beside it.
/// Throws InputError where weights are there that cannot be read (pickles, GGUF, an adapter, other
/// names), with the way to convert them. `blocks` says how a language model's blocks are units.
[[nodiscard]] ModelSource open_model(const std::string& model, Weights wanted,
                                     Blocks blocks = Blocks::Whole);

}  // namespace athanor
