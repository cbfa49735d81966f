// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_format.hpp"

#include "sim/base/errors.hpp"
#include "sim/base/text_file.hpp"
#include "sim/formats/files.hpp"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <array>
#include <charconv>
#include <cstring>

namespace athanor {
namespace {

constexpr const char* kSchema = "athanor.checkpoint/1";
constexpr std::array<std::string_view, 3> kPartNames{"master", "first_moment", "second_moment"};

std::uint64_t hash_text(std::string_view text, std::uint64_t hash) {
  // The length keeps "ab","c" apart from "a","bc".
  const std::uint64_t length = text.size();
  hash = hash_bytes(std::as_bytes(std::span(&length, 1)), hash);
  return hash_bytes(std::as_bytes(std::span(text)), hash);
}

template <typename T>
T value_of(const nlohmann::json& object, const char* key, const std::string& where) {
  try {
    return object.at(key).get<T>();
  } catch (const nlohmann::json::exception& error) {
    throw InputError(where + ":" + key, error.what(), kOtherCheckpoint);
  }
}

}  // namespace

std::string to_json(const CheckpointState& state) {
  nlohmann::ordered_json files = nlohmann::ordered_json::array();
  for (const CheckpointFile& file : state.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"checksum", file.checksum}});
  }
  const nlohmann::ordered_json json{
      {"schema", kSchema},
      {"step", state.step},
      {"world_size", state.world_size},
      {"seed", state.seed},
      {"model", {{"name", state.model}, {"parameters_hash", state.parameters}}},
      {"files", files},
  };
  return json.dump(2) + "\n";
}

CheckpointState read_checkpoint_state(const std::string& path) {
  const auto json = nlohmann::json::parse(read_text_file(path), nullptr, false);
  if (!json.is_object()) throw InputError(path, "is no JSON object", kOtherCheckpoint);
  const auto schema = value_of<std::string>(json, "schema", path);
  if (schema != kSchema) {
    throw InputError(path + ":schema", fmt::format("'{}' is not {}", schema, kSchema),
                     kOtherCheckpoint);
  }
  CheckpointState state;
  state.step = value_of<std::int64_t>(json, "step", path);
  state.world_size = value_of<int>(json, "world_size", path);
  state.seed = value_of<std::uint64_t>(json, "seed", path);
  const auto model = value_of<nlohmann::json>(json, "model", path);
  state.model = value_of<std::string>(model, "name", path);
  state.parameters = value_of<std::uint64_t>(model, "parameters_hash", path);
  for (const nlohmann::json& file : value_of<nlohmann::json>(json, "files", path)) {
    state.files.push_back({value_of<std::string>(file, "name", path),
                           value_of<Bytes>(file, "bytes", path),
                           value_of<std::uint64_t>(file, "checksum", path)});
  }
  if (state.step < 0) throw InputError(path + ":step", "is negative", kOtherCheckpoint);
  return state;
}

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::string rank_file_name(int rank, int world_size) {
  return fmt::format("rank-{:05}-of-{:05}.safetensors", rank, world_size);
}

std::string range_name(const std::string& unit, StatePart part, std::int64_t offset) {
  return fmt::format("{}/{}@{}", unit, kPartNames[static_cast<std::size_t>(part)], offset);
}

bool parse_range_name(std::string_view name, RangeName& range) {
  const std::size_t slash = name.rfind('/');
  const std::size_t at = name.rfind('@');
  if (slash == std::string_view::npos || at == std::string_view::npos || at < slash) return false;
  range.unit = name.substr(0, slash);
  const std::string_view part = name.substr(slash + 1, at - slash - 1);
  const std::string_view digits = name.substr(at + 1);
  const auto [end, error] =
      std::from_chars(digits.data(), digits.data() + digits.size(), range.offset);
  if (error != std::errc() || end != digits.data() + digits.size() || range.offset < 0) {
    return false;
  }
  for (const StatePart candidate : kStateParts) {
    range.part = candidate;
    if (part == kPartNames[static_cast<std::size_t>(candidate)]) return true;
  }
  return false;
}

std::uint64_t hash_parameters(const Architecture& architecture) {
  std::uint64_t hash = kEmptyHash;
  for (const Unit& unit : architecture.units) {
    hash = hash_text(unit.name, hash);
    for (const Parameter& parameter : unit.parameters) {
      hash = hash_text(parameter.name, hash);
      hash = hash_bytes(std::as_bytes(std::span(parameter.shape)), hash);
    }
  }
  // Positions are no parameters, but weights are trained for their scaling.
  const bool scales = architecture.language_model.has_value() &&
                      !architecture.language_model->rope_scaling.is_none();
  if (scales) hash = hash_text(text_of(architecture.language_model->rope_scaling), hash);
  return hash;
}

std::uint64_t hash_bytes(std::span<const std::byte> bytes, std::uint64_t hash) noexcept {
  constexpr std::uint64_t kPrime = 0x100000001b3;
  std::size_t i = 0;
  for (; i + sizeof(std::uint32_t) <= bytes.size(); i += sizeof(std::uint32_t)) {
    std::uint32_t word = 0;
    std::memcpy(&word, bytes.data() + i, sizeof word);
    hash = (hash ^ word) * kPrime;
  }
  for (; i < bytes.size(); ++i) hash = (hash ^ std::to_integer<std::uint64_t>(bytes[i])) * kPrime;
  return hash;
}

}  // namespace athanor
