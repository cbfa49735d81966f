// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_state.hpp"

#include "executor/checkpoint/checkpoint_format.hpp"
#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/json_reader.hpp"

#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace athanor {
namespace {

using Json = nlohmann::json;

/// Schemas by version, 1 first.
constexpr std::array<std::string_view, 3> kStateSchemas{
    "athanor.checkpoint/1", "athanor.checkpoint/2", "athanor.checkpoint/3"};
constexpr std::int64_t kMostRanks = 1'000'000;
constexpr Bytes kLargestState = 256 * kMiB;

std::string text_of_json(const auto& json, int indent) {
  // Names may come from folders whose names are not UTF-8.
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// Hash of every field but the checksum itself, whatever their order and the spaces between them.
std::uint64_t checksum_of(Json json) {
  json.erase("checksum");
  const std::string text = text_of_json(json, -1);
  return hash_bytes(std::as_bytes(std::span(text)));
}

/// Reads the members of one object.
class Members {
 public:
  Members(const Json& object, std::string where) : object_(object), where_(std::move(where)) {
    if (!object.is_object()) throw InputError(where_, "is no JSON object", kOtherCheckpoint);
  }

  [[nodiscard]] const Json& at(const char* key) const {
    const auto found = object_.find(key);
    if (found == object_.end()) fail(key, "is missing");
    return *found;
  }
  [[nodiscard]] std::int64_t integer(const char* key, std::int64_t minimum,
                                     std::int64_t maximum) const {
    const Json& value = at(key);
    // A number that is no int64 is unsigned and larger than any maximum.
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() ||
                       value.get<std::uint64_t>() <= static_cast<std::uint64_t>(maximum));
    if (!fits || value.get<std::int64_t>() < minimum || value.get<std::int64_t>() > maximum) {
      fail(key,
           fmt::format("is {}, not a whole number from {} to {}", shown(value), minimum, maximum));
    }
    return value.get<std::int64_t>();
  }
  [[nodiscard]] std::uint64_t hash(const char* key) const {
    const Json& value = at(key);
    if (!value.is_number_unsigned()) fail(key, fmt::format("is {}, no number", shown(value)));
    return value.get<std::uint64_t>();
  }
  [[nodiscard]] std::string text(const char* key) const {
    const Json& value = at(key);
    if (!value.is_string()) fail(key, fmt::format("is {}, no text", shown(value)));
    return value.get<std::string>();
  }
  [[noreturn]] void fail(const std::string& key, const std::string& problem) const {
    throw InputError(where_ + ":" + key, problem, kOtherCheckpoint);
  }

 private:
  static std::string shown(const Json& value) {
    constexpr std::size_t kShown = 40;
    return text_of_json(value, -1).substr(0, kShown);
  }

  const Json& object_;
  std::string where_;
};

/// Limits of numbers that a run can reach. Products of them are no overflow.
constexpr std::int64_t kMostSamples = 1'000'000'000'000'000'000;
constexpr Bytes kLargestFile = kMostSamples;

int version_of(const Members& state) {
  const std::string schema = state.text("schema");
  for (std::size_t i = 0; i < kStateSchemas.size(); ++i) {
    if (schema == kStateSchemas.at(i)) return static_cast<int>(i) + 1;
  }
  state.fail("schema", fmt::format("'{}' is not {}", schema, kStateSchemas.back()));
}

void read_additions(const Members& members, const Json& json, const std::string& path,
                    CheckpointState& state) {
  if (members.hash("checksum") != checksum_of(json)) {
    throw InputError(path, "is damaged: its checksum differs from its content", kOtherCheckpoint);
  }
  state.run = members.text("run");
  const Members data(members.at("data"), path + ":data");
  state.position = {.samples = data.integer("samples", 0, kMostSamples),
                    .sequence_length = data.integer("sequence_length", 1, kMostSteps)};
  const Json& settings = members.at("settings");
  const Members checked(settings, path + ":settings");
  for (const auto& [key, value] : settings.items()) state.settings[key] = checked.text(key.c_str());
}

void read_files(const Json& files, const std::string& path, CheckpointState& state) {
  if (!files.is_array() || static_cast<int>(files.size()) != state.world_size) {
    throw InputError(path + ":files", fmt::format("is no list of {} files", state.world_size),
                     kOtherCheckpoint);
  }
  for (int rank = 0; rank < state.world_size; ++rank) {
    const Members file(files[static_cast<std::size_t>(rank)],
                       fmt::format("{}:files[{}]", path, rank));
    const std::string expected = rank_file_name(rank, state.world_size);
    // A file of another name could lie outside the checkpoint.
    if (file.text("name") != expected) file.fail("name", "is not " + expected);
    state.files.push_back(
        {expected, file.integer("bytes", 0, kLargestFile), file.hash("checksum")});
  }
}

}  // namespace

std::string to_json(const CheckpointState& state) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const CheckpointFile& file : state.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  nlohmann::ordered_json json{
      {"schema", kStateSchemas.back()},
      {"run", state.run},
      {"step", state.step},
      {"data",
       {{"samples", state.position.samples}, {"sequence_length", state.position.sequence_length}}},
      {"world_size", state.world_size},
      {"seed", state.seed},
      {"model", {{"name", state.model}, {"parameters_hash", state.parameters}}},
      {"settings", nlohmann::ordered_json(state.settings)},
      {"files", files},
  };
  // The hash is over what a reader will see.
  json["checksum"] = checksum_of(Json::parse(text_of_json(json, -1)));
  return text_of_json(json, 2) + "\n";
}

CheckpointState read_checkpoint_state(const std::string& path) {
  std::error_code error;
  if (const auto status = std::filesystem::symlink_status(path, error);
      std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    throw InputError(path, "is no regular file", kOtherCheckpoint);
  }
  return parse_checkpoint_state(read_text_file(path, kLargestState), path);
}

CheckpointState parse_checkpoint_state(const std::string& text, const std::string& where) {
  const Json json = parse_json(text, where);
  const Members members(json, where);
  CheckpointState state;
  state.version = version_of(members);
  if (state.version > 1) read_additions(members, json, where, state);
  state.step = members.integer("step", 0, kMostSteps);
  state.world_size = static_cast<int>(members.integer("world_size", 1, kMostRanks));
  state.seed = members.hash("seed");
  const Members model(members.at("model"), where + ":model");
  state.model = model.text("name");
  state.parameters = model.hash("parameters_hash");
  read_files(members.at("files"), where, state);
  return state;
}

}  // namespace athanor
