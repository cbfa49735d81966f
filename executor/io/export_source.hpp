// SPDX-License-Identifier: Apache-2.0
// The parts of a model folder that training does not change and an export keeps: the keys of
// config.json, the tokenizer, the settings of generation.
#pragma once

#include "sim/base/quantities.hpp"
#include "sim/model/architecture.hpp"

#include <filesystem>
#include <string>
#include <vector>

namespace athanor {

struct ExportSource {
  std::string config;  ///< text of config.json; empty: the model has none
  std::string config_path;
  std::vector<std::filesystem::path> companions;  ///< files to copy
};

/// Reads what the export of `model`, as --model names it, is to keep. A built-in model has nothing.
/// Throws InputError when config.json cannot be read.
[[nodiscard]] ExportSource read_export_source(const std::string& model);

[[nodiscard]] Bytes companion_bytes(const ExportSource& source);

/// Returns the text of the exported config.json: every key of the source with its value, but for
/// the type of the weights. Without a source, the keys that `transformers` needs; a traced model
/// always has one.
[[nodiscard]] std::string exported_config(const ExportSource& source,
                                          const Architecture& architecture, DataType dtype);

/// Copies the companions into `folder`. Throws Error, with the file's name.
void copy_companions(const ExportSource& source, const std::filesystem::path& folder);

}  // namespace athanor
