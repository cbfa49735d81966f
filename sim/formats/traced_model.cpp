// SPDX-License-Identifier: Apache-2.0
#include "sim/formats/traced_model.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/printable.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/json_reader.hpp"
#include "sim/formats/json_writer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDescription = "traced.json";
constexpr const char* kAgain = "Trace the model again with `athanor trace`.";

/// Refuses a name that would lead out of the folder of graphs.
void check_file_name(const JsonReader& json, const std::string& name) {
  if (fs::path(name).filename() != fs::path(name)) {
    json.reject(fmt::format("'{}' is no file name", name), kAgain);
  }
}

/// Whether the unit owns or borrows a parameter of this name.
bool knows(const Unit& unit, const std::string& name) {
  return std::ranges::find(unit.parameters, name, &Parameter::name) != unit.parameters.end() ||
         std::ranges::find(unit.borrows, name, &Borrow::parameter) != unit.borrows.end();
}

TracedUnitGraph read_graph(JsonReader json, const Unit& unit) {
  TracedUnitGraph graph;
  const JsonReader name = json.key("name");
  graph.name = name.name();
  check_file_name(name, graph.name);
  for (const JsonReader& parameter : json.key("parameters").items()) {
    graph.parameters.push_back(parameter.name());
    if (!knows(unit, graph.parameters.back())) {
      parameter.reject(
          fmt::format("'{}' has no parameter '{}'", unit.name, graph.parameters.back()), kAgain);
    }
  }
  json.reject_other_keys();
  return graph;
}

void read_graphs(const JsonReader& json, TracedFolder& folder) {
  const std::vector<JsonReader> items = json.items();
  if (items.size() != folder.architecture.units.size()) {
    json.reject(
        fmt::format("{} graphs for {} units", items.size(), folder.architecture.units.size()),
        kAgain);
  }
  for (std::size_t i = 0; i < items.size(); ++i) {
    folder.graphs.push_back(read_graph(items[i], folder.architecture.units[i]));
  }
}

void read_projection(JsonReader& json, TracedFolder& folder) {
  const auto projection = json.optional_key("projection");
  if (!projection) return;
  folder.projection = projection->name();
  if (!knows(folder.architecture.units.back(), *folder.projection)) {
    projection->reject(fmt::format("the last unit has no parameter '{}'", *folder.projection),
                       kAgain);
  }
}

Architecture read_traced_architecture(JsonReader json) {
  Architecture architecture = read_architecture(json);
  if (!architecture.traced) {
    json.path().key("traced").reject("is missing", kAgain);
  }
  return architecture;
}

}  // namespace

fs::path TracedFolder::graph_file(int unit, DataType dtype) const {
  return path / "units" /
         fmt::format("{}.{}.pt", graphs.at(static_cast<std::size_t>(unit)).name,
                     name_of(kDataTypeNames, dtype));
}

bool is_traced_folder(const std::string& model) {
  std::error_code missing;
  return fs::is_regular_file(fs::path(model) / kDescription, missing);
}

TracedFolder parse_traced_model(std::string_view text, const std::string& file) {
  const nlohmann::json document = parse_json(text, file);
  JsonReader json(document, ValuePath(file));
  check_schema(json, "traced-model", "trace");
  TracedFolder result;
  result.architecture = read_traced_architecture(json.key("architecture"));
  result.architecture.validate(file);
  read_graphs(json.key("graphs"), result);
  read_projection(json, result);
  result.base_prefix = json.key("base_prefix").string();
  for (const JsonReader& name : json.key("ignored_tensors").items()) {
    result.ignored_tensors.insert(name.string());
  }
  (void)json.key("transformers").string();  // the version that traced the model, for the reader
  json.reject_other_keys();
  return result;
}

TracedFolder read_traced_folder(const std::string& folder) {
  const fs::path file = fs::path(folder) / kDescription;
  TracedFolder result =
      parse_traced_model(read_text_file(file.string(), kMaxDocument), file.string());
  result.path = folder;
  const fs::path absolute = fs::absolute(file).lexically_normal();
  result.architecture.name = printable(absolute.parent_path().filename().string());
  return result;
}

}  // namespace athanor
