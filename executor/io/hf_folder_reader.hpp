// SPDX-License-Identifier: Apache-2.0
// Reads Hugging Face model folders: config.json with model.safetensors, whole or in shards.
#pragma once

#include "executor/io/safetensors_reader.hpp"
#include "executor/io/stored_tensors.hpp"
#include "sim/model/architecture.hpp"
#include "sim/model/language_models.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace athanor {

/// A folder to load weights from. Opening validates all of it: every parameter is there once, with
/// the architecture's shape and a type that widens to fp32, and no tensor is unknown. gpt_oss's
/// experts may be in MXFP4. Throws InputError (file:tensor, problem, way out).
class HfFolder {
 public:
  /// Units are those of the folder's config.json. `blocks` says how a language model's blocks are
  /// units.
  explicit HfFolder(const std::string& folder, Blocks blocks = Blocks::Whole);

  [[nodiscard]] const Architecture& architecture() const noexcept { return architecture_; }
  /// Writes the parameters of unit `unit` into its flat fp32 storage (see chunk_layout.hpp);
  /// padding is zero. Thread-safe. Throws Error when `flat` is too short, InputError that names the
  /// tensor and the element where a weight is not finite.
  void read_unit(int unit, std::span<float> flat) const;

 private:
  struct Source {
    const SafetensorsReader* file;
    const TensorEntry* tensor;
    StoredTensor stored;
    /// The scales of a tensor in MXFP4; null for any other.
    const SafetensorsReader* scale_file = nullptr;
    const TensorEntry* scales = nullptr;
  };
  Architecture architecture_;
  std::vector<std::unique_ptr<SafetensorsReader>> files_;
  std::vector<std::vector<Source>> sources_;  ///< [unit][stored tensor]
};

}  // namespace athanor
