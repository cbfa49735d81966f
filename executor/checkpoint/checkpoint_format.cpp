// SPDX-License-Identifier: Apache-2.0
#include "executor/checkpoint/checkpoint_format.hpp"

#include "sim/model/language_models.hpp"

#include <fmt/format.h>
#include <fnmatch.h>

#include <array>
#include <charconv>
#include <cstring>

namespace athanor {
namespace {

constexpr std::array<std::string_view, 3> kPartNames{"master", "first_moment", "second_moment"};

std::uint64_t hash_text(std::string_view text, std::uint64_t hash) {
  // The length keeps "ab","c" apart from "a","bc".
  const std::uint64_t length = text.size();
  hash = hash_bytes(std::as_bytes(std::span(&length, 1)), hash);
  return hash_bytes(std::as_bytes(std::span(text)), hash);
}

}  // namespace

std::string checkpoint_name(std::int64_t step) { return fmt::format("step-{:08}", step); }

std::optional<std::int64_t> parse_checkpoint_name(const std::string& name) {
  constexpr std::string_view kPrefix = "step-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t step = 0;
  const auto parsed =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), step);
  // One step has one name: others, such as step-10, are a user's.
  if (parsed.ec != std::errc() || step < 0 || checkpoint_name(step) != name) return std::nullopt;
  return step;
}

namespace {

bool is_rank_name(const std::string& name, const std::string& ending) {
  const std::string pattern =
      "rank-[0-9][0-9][0-9][0-9]+([0-9])-of-[0-9][0-9][0-9][0-9]+([0-9])" + ending;
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_EXTMATCH) == 0;
}

}  // namespace

std::string rank_file_name(int rank, int world_size) {
  return fmt::format("rank-{:05}-of-{:05}.safetensors", rank, world_size);
}

bool is_rank_file_name(const std::string& name) { return is_rank_name(name, ".safetensors"); }

std::string done_file_name(int rank, int world_size) {
  return fmt::format("rank-{:05}-of-{:05}.done", rank, world_size);
}

bool is_done_file_name(const std::string& name) { return is_rank_name(name, ".done"); }

std::string range_name(const std::string& unit, StatePart part, const StridedRange& range) {
  const std::string name =
      fmt::format("{}/{}@{}", unit, kPartNames[static_cast<std::size_t>(part)], range.offset);
  return range.count > 1 ? fmt::format("{}+{}/{}", name, range.run, range.stride) : name;
}

namespace {

/// Reads a number from 0 to what a model can have, at the start of `text`, and removes it there.
bool take_number(std::string_view& text, std::int64_t& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kMostElements) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take(std::string_view& text, char letter) {
  if (!text.starts_with(letter)) return false;
  text.remove_prefix(1);
  return true;
}

/// Parses what follows the "@" of a range_name.
bool parse_place(std::string_view text, RangeName& range) {
  range.run = range.stride = 0;
  if (!take_number(text, range.offset)) return false;
  if (text.empty()) return true;
  return take(text, '+') && take_number(text, range.run) && take(text, '/') &&
         take_number(text, range.stride) && text.empty() && range.run > 0 &&
         range.run <= range.stride;
}

}  // namespace

bool parse_range_name(std::string_view name, RangeName& range) {
  const std::size_t at = name.rfind('@');
  const std::size_t slash = at == std::string_view::npos ? at : name.rfind('/', at);
  if (slash == std::string_view::npos) return false;
  range.unit = name.substr(0, slash);
  const std::string_view part = name.substr(slash + 1, at - slash - 1);
  if (!parse_place(name.substr(at + 1), range)) return false;
  for (const StatePart candidate : kStateParts) {
    range.part = candidate;
    if (part == kPartNames[static_cast<std::size_t>(candidate)]) return true;
  }
  return false;
}

std::uint64_t hash_parameters(const Architecture& architecture) {
  std::uint64_t hash = kEmptyHash;
  for (const Unit& unit : with_blocks(architecture, Blocks::Whole).units) {
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
  const bool routes = architecture.language_model && architecture.language_model->experts.exist();
  if (routes) hash = hash_text(text_of(architecture.language_model->experts), hash);
  if (architecture.language_model && architecture.language_model->multipliers != Multipliers{}) {
    hash = hash_text(text_of(architecture.language_model->multipliers), hash);
  }
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
