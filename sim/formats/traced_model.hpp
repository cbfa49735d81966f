// SPDX-License-Identifier: Apache-2.0
// traced.json: what `athanor trace` writes into the folder of a traced model.
#pragma once

#include "sim/model/architecture.hpp"

#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace athanor {

/// A unit's function. Its arguments are the hidden state (token ids for the first unit), then these
/// parameters.
struct TracedUnitGraph {
  std::string name;  ///< files are units/NAME.DTYPE.pt
  std::vector<std::string> parameters;
};

/// A folder with the graphs of a model's units. Units of one class share a graph.
struct TracedFolder {
  std::filesystem::path path;
  Architecture architecture;
  std::vector<TracedUnitGraph> graphs;  ///< one for each unit
  /// Parameter of the last unit [vocabulary, hidden] that turns its output into logits. Nothing:
  /// the output is the logits.
  std::optional<std::string> projection;
  std::string base_prefix;                ///< a model without its head leaves it out of names
  std::set<std::string> ignored_tensors;  ///< a file of weights may hold them without need

  /// Path of the graph of unit `unit` for this type of element.
  [[nodiscard]] std::filesystem::path graph_file(int unit, DataType dtype) const;
};

/// Whether `model`, as --model names it, is the folder of a traced model.
[[nodiscard]] bool is_traced_folder(const std::string& model);

/// Reads the text of a traced.json. `file` stands for it in messages. The model's name is the
/// text's. Throws InputError (file:key, problem, way out).
[[nodiscard]] TracedFolder parse_traced_model(std::string_view text, const std::string& file);

/// Reads traced.json of the folder, whose name is the model's. Throws InputError (file:key,
/// problem, way out).
[[nodiscard]] TracedFolder read_traced_folder(const std::string& folder);

}  // namespace athanor
