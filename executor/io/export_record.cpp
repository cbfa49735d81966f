// SPDX-License-Identifier: Apache-2.0
#include "executor/io/export_record.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"
#include "sim/formats/json_reader.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <filesystem>
#include <system_error>

namespace athanor {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSchema = "athanor.export/1";

ExportRecord parse_record(const std::string& text, const std::string& path) {
  const nlohmann::json document = parse_json(text, path);
  JsonReader json(document, ValuePath(path));
  JsonReader schema = json.key("schema");
  if (schema.string() != kSchema) schema.reject("is unknown", "Use this version's own exports.");
  ExportRecord record{.run = json.key("run").string(),
                      .step = json.key("step").integer(0),
                      .digest = json.key("digest").string(),
                      .shards = {}};
  JsonReader shards = json.key("shards");
  for (const std::string& name : shards.keys()) {
    record.shards[name] = shards.key(name).integer(0);
  }
  return record;
}

/// Whether a regular file of that size is in the folder itself.
bool has_file(const fs::path& folder, const std::string& name, Bytes bytes) {
  std::error_code error;
  const fs::path file = folder / name;
  return fs::path(name).filename() == fs::path(name) &&
         fs::is_regular_file(fs::symlink_status(file, error)) &&
         fs::file_size(file, error) == static_cast<std::uintmax_t>(bytes) && !error;
}

}  // namespace

std::string to_json(const ExportRecord& record) {
  const nlohmann::ordered_json json{{"schema", kSchema},
                                    {"run", record.run},
                                    {"step", record.step},
                                    {"digest", record.digest},
                                    {"shards", record.shards}};
  return json.dump(2) + "\n";
}

std::optional<ExportRecord> read_export_record(const std::string& folder) {
  const std::string path = (fs::path(folder) / kExportRecord).string();
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error))) return std::nullopt;
  try {
    const ExportRecord record = parse_record(read_text_file(path, kMaxDocument), path);
    const bool is_whole =
        !record.shards.empty() && std::ranges::all_of(record.shards, [&](const auto& shard) {
          return has_file(folder, shard.first, shard.second);
        });
    return is_whole ? std::optional(record) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;  // a file of somebody else's; its folder is then not replaced either
  }
}

}  // namespace athanor
